(* Networks that add or multiply: definitions and theorems, for any base and any length.

   1. canvases, and a cell that fills them; numbers as rows of digits
   2. sums: what a cell has to do, the inputs that it can have, and the theorem: a cell that does so
      for each of them fills every canvas with the correct sum
   3. products as people write them: the same for the ops of a cell
   4. the network: its arithmetic in whole numbers, as in trm/cells/integer.py

   The weights of one network, and the theorem about it, follow at the end of the file.
   A row is a list of symbols from the right to the left, so that the digit of column i of a number
   is the one of base ^ i. A canvas is a list of rows from the top. *)

From Coq Require Import List Arith Lia Bool.
From Coq Require PrimInt63 Sint63.
Import ListNotations.
Local Open Scope nat_scope.

(* ---- 1. Canvases ---- *)

Module Canvas.
(* Asked: a cell to fill in. Other: all that occurs on no canvas of a sum. *)
Inductive symbol := Digit (d : nat) | Blank | Plus | Times | Asked | Other (id : nat).

(* How a cell fills a canvas: row after row from the top, each from the right to the left. It reads
   its symbol and what its neighbours on the right, above, above left and above right have passed
   on; None: there is no such neighbour. It writes a symbol, and passes one message to the left and
   one to the row below. A given symbol stays. *)
Section Machine.
  Variables L D : Type.
  Variable cell : symbol -> option L -> option D -> option D -> option D -> symbol * L * D.

  Fixpoint fill_row (right : option L) (above_right : option D) (above : list D)
      (row : list symbol) : list (symbol * L * D) :=
    match row with
    | [] => []
    | given :: rest =>
        let '(decided, to_left, to_below) :=
          cell given right (hd_error above) (hd_error (tl above)) above_right in
        let written := match given with Asked => decided | _ => given end in
        (written, to_left, to_below) :: fill_row (Some to_left) (hd_error above) (tl above) rest
    end.

  Fixpoint fill_below (above : list D) (canvas : list (list symbol)) : list (list symbol) :=
    match canvas with
    | [] => []
    | row :: rest =>
        let cells := fill_row None None above row in
        map (fun one => fst (fst one)) cells :: fill_below (map snd cells) rest
    end.

  Definition fill := fill_below [].
End Machine.
Arguments fill_row {L D}.
Arguments fill_below {L D}.
Arguments fill {L D}.

(* A message: a class for each of its signals. Classes: 0 is none, 1 + d is the digit or carry d. *)
Definition message := list nat.

(* A symbol by its index in the vocabulary. *)
Definition symbol_of (id : nat) : symbol :=
  match id with
   | 11 => Blank | 12 => Times | 13 => Asked | 17 => Plus
   | 0 => Other 0
   | S d => if d <? 10 then Digit d else if 17 <? id then Digit (id - 8) else Other id
  end.
Definition id_of (s : symbol) : nat :=
  match s with
   | Digit d => if d <? 10 then S d else 8 + d
   | Blank => 11 | Times => 12 | Asked => 13 | Plus => 17
   | Other id => id
  end.

Section Numbers.
  Variable base : nat.

  (* Numbers are written without leading zeros; 0 is written as one digit. *)
  Definition digit (n column : nat) := n / base ^ column mod base.
  Definition stands (n column : nat) : bool := (column =? 0) || (base ^ column <=? n).
  Definition written (n column : nat) := if stands n column then Digit (digit n column) else Blank.
  Definition row (width n : nat) := map (written n) (seq 0 width).

  (* The number that a row shows. *)
  Fixpoint value (digits : list symbol) : nat :=
    match digits with
    | [] => 0
    | Digit d :: rest => d + base * value rest
    | _ :: rest => base * value rest
    end.

  Hypothesis base_is_2_or_more : 2 <= base.

  Lemma power_is_positive : forall column, 0 < base ^ column.
  Proof. intro. assert (base ^ column <> 0) by (apply Nat.pow_nonzero; lia). lia. Qed.

  Lemma digit_is_less : forall n column, digit n column < base.
  Proof. intros. apply Nat.mod_upper_bound. lia. Qed.

  Lemma digit_beyond : forall n column, n < base ^ column -> digit n column = 0.
  Proof.
    intros. unfold digit. rewrite Nat.div_small by assumption. apply Nat.mod_0_l. lia.
  Qed.

  Lemma value_from : forall n width column, n < base ^ (column + width) ->
    value (map (written n) (seq column width)) = n / base ^ column.
  Proof.
    intros n. induction width; intros column small; cbn [seq map value].
    - rewrite Nat.add_0_r in small. now rewrite Nat.div_small.
    - assert (value (map (written n) (seq (S column) width)) = n / base ^ column / base) as rest.
      { rewrite IHwidth by (now rewrite Nat.add_succ_comm).
        rewrite Nat.div_div by (try lia; pose proof (power_is_positive column); lia).
        f_equal. cbn. lia. }
      unfold written at 1, stands.
      assert (H : digit n column + base * (n / base ^ column / base) = n / base ^ column).
      { unfold digit. pose proof (Nat.div_mod (n / base ^ column) base). lia. }
      destruct (column =? 0) eqn:?, (base ^ column <=? n) eqn:beyond; cbn [orb]; rewrite rest;
          try exact H.
      apply Nat.leb_gt in beyond. rewrite digit_beyond in H by assumption. exact H.
  Qed.

  Theorem row_shows : forall width n, n < base ^ width -> value (row width n) = n.
  Proof.
    intros. unfold row. rewrite value_from by assumption. apply Nat.div_1_r.
  Qed.

  (* ---- 2. Sums ---- *)

  (* Addends below each other, a plus sign before the last one, and a row to be filled in; and the
     same with the sum. On the right is a margin of blank columns. See the example after this
     section. *)
  Definition addend_row (width margin n : nat) := repeat Blank margin ++ row width n.
  Definition last_addend_row (width margin sign n : nat) :=
    repeat Blank margin ++ map (fun i => if i =? sign then Plus else written n i) (seq 0 width).
  Definition sum_canvas (width margin sign : nat) (numbers : list nat) (last : nat) :=
    map (addend_row width margin) numbers
      ++ [last_addend_row width margin sign last; repeat Asked (margin + width)].
  Definition solved_sum (width margin sign : nat) (numbers : list nat) (last : nat) :=
    map (addend_row width margin) numbers
      ++ [last_addend_row width margin sign last;
          addend_row width margin (list_sum numbers + last)].

  (* What a cell has to do. From above it reads the addend that stands there, and the sum of all
     addends above that one; from the right a carry. *)
  Definition class_of (s : symbol) := match s with Digit d => S d | _ => 0 end.

  Definition sum_rule (given : symbol)
      (right above : option message) : symbol * message * message :=
    match above with
    | Some [addend; sum] =>
        let carry_class := match right with Some [c] => c | _ => 0 end in
        let total := pred addend + pred sum + pred carry_class in
        let written := (0 <? addend) || (0 <? sum) || (carry_class =? 2) in
        (if written then Digit (total mod base) else Blank,
         [if written || (0 <? carry_class) then S (total / base) else 0],
         [class_of given; if written then S (total mod base) else 0])
    | _ => (Blank, [0], [class_of given; 0])
    end.

  (* The inputs that a cell can have: in the first row; in the margin; in the units;
      on their left. *)
  Definition digits := map Digit (seq 0 base).
  Definition no_carry : list (option message) := [None; Some [0]].
  Definition carries : list (option message) := [Some [1]; Some [2]].
  Definition sums_above (addends : list nat) : list (option message) :=
    flat_map (fun addend => map (fun sum => Some [addend; sum]) (seq 0 (S base))) addends.

  Definition input : Type := symbol * option message * option message.
  Definition inputs_of (given : list symbol) (right above : list (option message)) : list input :=
    list_prod (list_prod given right) above.
  Definition sum_inputs : list input :=
    inputs_of (Blank :: digits) no_carry [None]
      ++ inputs_of [Blank; Asked] no_carry [Some [0; 0]]
      ++ inputs_of (Asked :: digits) no_carry (sums_above (seq 1 base))
      ++ inputs_of (Asked :: Blank :: Plus :: digits) carries (sums_above (seq 0 (S base))).

  Definition sum_cell := symbol -> option message -> option message -> symbol * message * message.

  (* A cell does what it has to do for each of these inputs. A computation decides this. *)
  Definition same_symbol (one other : symbol) : bool :=
    match one, other with
    | Digit d, Digit e => d =? e
    | Blank, Blank => true
    | _, _ => false
    end.
  Fixpoint same_message (one other : message) : bool :=
    match one, other with
    | [], [] => true
    | c :: one, d :: other => (c =? d) && same_message one other
    | _, _ => false
    end.
  Definition same (given : symbol) (one other : symbol * message * message) : bool :=
    let '(s, to_left, to_below) := one in
    let '(s', to_left', to_below') := other in
    match given with Asked => same_symbol s s' | _ => true end
      && same_message to_left to_left' && same_message to_below to_below'.

  Definition adds_in_every_cell (cell : sum_cell) : bool :=
    forallb (fun '(given, beside, above) =>
      same given (cell given beside above) (sum_rule given beside above)) sum_inputs.

  Definition beside_and_above (cell : sum_cell) given from_right above (_ _ : option message) :=
    cell given from_right above.

  Variable cell : sum_cell.
  Hypothesis agrees : adds_in_every_cell cell = true.

  Lemma same_symbol_equal : forall one other, same_symbol one other = true -> one = other.
  Proof.
    intros [] []; cbn; try discriminate; trivial. intros e%Nat.eqb_eq. now subst.
  Qed.

  Lemma same_message_equal : forall one other, same_message one other = true -> one = other.
  Proof.
    induction one; intros [] e; cbn in e; try discriminate; trivial.
    apply andb_prop in e as [first%Nat.eqb_eq rest%IHone]. now subst.
  Qed.

  (* What a cell writes and passes, for all inputs that were checked. *)
  Lemma cell_is_rule : forall given right above, In (given, right, above) sum_inputs ->
    let '(decided, to_left, to_below) := cell given right above in
    let '(decided', to_left', to_below') := sum_rule given right above in
    (given = Asked -> decided = decided') /\ to_left = to_left' /\ to_below = to_below'.
  Proof.
    intros given right above listed. unfold adds_in_every_cell in agrees.
    rewrite forallb_forall in agrees. specialize (agrees _ listed). cbn in agrees.
    unfold same in agrees.
    destruct (cell given right above) as [[s l] d], (sum_rule given right above) as [[s' l'] d'].
    apply andb_prop in agrees as [[writes left_same]%andb_prop below_same].
    repeat split; auto using same_message_equal. intros ->. now apply same_symbol_equal.
  Qed.

  Lemma in_inputs : forall given right above givens rights aboves,
    In given givens -> In right rights -> In above aboves ->
    In (given, right, above) (inputs_of givens rights aboves).
  Proof. intros. now repeat apply in_prod. Qed.

  Lemma in_digits : forall d, d < base -> In (Digit d) digits.
  Proof. intros. apply in_map, in_seq. lia. Qed.

  Lemma in_sums_above : forall addends addend sum, In addend addends -> sum <= base ->
    In (Some [addend; sum]) (sums_above addends).
  Proof.
    intros. apply in_flat_map. exists addend. split; trivial.
    apply (in_map (fun sum => Some [addend; sum])). apply in_seq. lia.
  Qed.

  (* Classes of a number in each column; of the sum so far, which is none before any number. *)
  Definition class (n column : nat) := if stands n column then S (digit n column) else 0.
  Definition class_so_far (n : option nat) (column : nat) :=
    match n with Some n => class n column | None => 0 end.
  Definition so_far (n : option nat) := match n with Some n => n | None => 0 end.
  Definition carry (n m column : nat) :=
    (n mod base ^ column + m mod base ^ column) / base ^ column.

  Lemma class_of_written : forall n column, class_of (written n column) = class n column.
  Proof. intros. unfold written, class. now destruct (stands n column). Qed.

  Lemma class_limit : forall n column, class n column <= base.
  Proof.
    intros. unfold class. pose proof (digit_is_less  n column).
    destruct (stands n column); lia.
  Qed.

  Lemma class_digit : forall n column, pred (class n column) = digit n column.
  Proof.
    intros. unfold class, stands. destruct (column =? 0); [easy | cbn [orb]].
    destruct (base ^ column <=? n) eqn:beyond; trivial. apply Nat.leb_gt in beyond.
    now rewrite digit_beyond.
  Qed.

  Lemma class_so_far_digit : forall n column, pred (class_so_far n column) = digit
      (so_far n) column.
  Proof.
    intros [n|] column; cbn; [apply class_digit |]. unfold digit.
    rewrite Nat.div_0_l, Nat.mod_0_l; try lia. apply Nat.pow_nonzero. lia.
  Qed.

  Lemma carry_is_less : forall n m column, carry n m column < 2.
  Proof.
    intros. unfold carry. pose proof (power_is_positive  column).
    apply Nat.div_lt_upper_bound; [lia |].
    pose proof (Nat.mod_upper_bound n (base ^ column)).
    pose proof (Nat.mod_upper_bound m (base ^ column)). lia.
  Qed.

  Lemma carry_of_units : forall n m, carry n m 0 = 0.
  Proof. intros. unfold carry. now rewrite Nat.pow_0_r, !Nat.mod_1_r. Qed.

  Lemma column_adds : forall n m column,
    let total := digit n column + digit m column + carry n m column in
    digit (n + m) column = total mod base /\ carry n m (S column) = total / base.
  Proof.
    intros n m column. unfold carry, digit. rewrite (Nat.pow_succ_r' base column).
    pose proof (power_is_positive  column) as positive.
    set (P := base ^ column) in *. cbn zeta.
    rewrite (Nat.mul_comm base P), !Nat.mod_mul_r by lia.
    set (n0 := n mod P). set (m0 := m mod P). set (c := (n0 + m0) / P).
    pose proof (Nat.div_mod n P) as whole_n. pose proof (Nat.div_mod m P) as whole_m.
    pose proof (Nat.div_mod (n0 + m0) P) as whole_c.
    pose proof (Nat.mod_upper_bound (n0 + m0) P) as less.
    fold n0 in whole_n. fold m0 in whole_m. fold c in whole_c. set (r := (n0 + m0) mod P) in *.
    split.
    - replace ((n + m) / P) with (n / P + m / P + c).
      + rewrite <- (Nat.add_mod_idemp_l (n / P mod base + m / P mod base) c) by lia.
        now rewrite <- Nat.add_mod, Nat.add_mod_idemp_l by lia.
      + apply Nat.div_unique with r; nia.
    - rewrite <- Nat.div_div by lia. f_equal. symmetry. apply Nat.div_unique with r; nia.
  Qed.

  Lemma column_stands : forall n m column, 0 < column ->
    stands (n + m) column = stands n column || stands m column || (carry n m column =? 1).
  Proof.
    intros n m column left_of_units. unfold stands, carry.
    replace (column =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [orb].
    pose proof (power_is_positive  column). set (P := base ^ column) in *.
    destruct (P <=? n) eqn:beyond_n; cbn [orb].
    { apply Nat.leb_le in beyond_n. apply Nat.leb_le. lia. }
    destruct (P <=? m) eqn:beyond_m; cbn [orb].
    { apply Nat.leb_le in beyond_m. apply Nat.leb_le. lia. }
    apply Nat.leb_gt in beyond_n, beyond_m. rewrite !Nat.mod_small by lia.
    destruct (P <=? n + m) eqn:beyond.
    - apply Nat.leb_le in beyond. symmetry. apply Nat.eqb_eq. symmetry.
      apply Nat.div_unique with (n + m - P); lia.
    - apply Nat.leb_gt in beyond. now rewrite Nat.div_small.
  Qed.


  Definition fits_right (n : nat) (t : option nat) (column : nat) (from_right : option message) :=
    (column = 0 -> In from_right no_carry) /\
    (0 < column -> from_right = Some [S (carry n (so_far t) column)]).

  Lemma written_if_class : forall n column, (0 <? class n column) = stands n column.
  Proof. intros. unfold class. now destruct (stands n column). Qed.

  Lemma rule_adds : forall n t column given from_right, fits_right n t column from_right ->
    sum_rule given from_right (Some [class n column; class_so_far t column]) =
      (written (n + so_far t) column, [S (carry n (so_far t) (S column))],
       [class_of given; class (n + so_far t) column]).
  Proof.
    intros n t column given from_right [units rest]. unfold sum_rule.
    rewrite class_digit, class_so_far_digit.
    destruct (column_adds n (so_far t) column) as [sum_digit next_carry].
    destruct (Nat.eq_0_gt_0_cases column) as [-> | left_of_units].
    - rewrite carry_of_units, Nat.add_0_r in *. rewrite written_if_class. cbn [stands Nat.eqb orb].
      unfold written, class. cbn [stands Nat.eqb orb]. rewrite sum_digit, next_carry.
      destruct units as [<- | [<- | []]]; trivial; cbn [pred]; now rewrite Nat.add_0_r.
    - rewrite rest by assumption. cbn [pred].
      rewrite <- next_carry, <- sum_digit, written_if_class.
      replace (0 <? class_so_far t column) with (stands (so_far t) column).
      2:{ destruct t; [symmetry; apply written_if_class |]. unfold stands, so_far.
          replace (column =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
          cbn [orb]. apply Nat.leb_gt. apply power_is_positive. }
      unfold written, class. rewrite column_stands by assumption.
      replace (S (carry n (so_far t) column) =? 2) with (carry n (so_far t) column =? 1) by trivial.
      cbn [Nat.ltb Nat.leb]. rewrite orb_true_r. reflexivity.
  Qed.

  Definition given_in_column (column : nat) (given : symbol) :=
    In given (if column =? 0 then Asked :: digits else Asked :: Blank :: Plus :: digits).

  Lemma input_is_checked : forall n t column given from_right, fits_right n t column from_right ->
    given_in_column column given ->
    In (given, from_right, Some [class n column; class_so_far t column]) sum_inputs.
  Proof.
    intros n t column given from_right [units rest] standing. unfold sum_inputs.
    assert (class_so_far t column <= base) by (destruct t; [apply class_limit | cbn; lia]).
    rewrite !in_app_iff. do 2 right. unfold given_in_column in standing.
    pose proof (class_limit n column).
    destruct (Nat.eq_0_gt_0_cases column) as [-> | left_of_units].
    - left. apply in_inputs; auto. apply in_sums_above; trivial. apply in_seq.
      unfold class in *. cbn [stands Nat.eqb orb] in *. lia.
    - right. replace (column =? 0) with false in * by (symmetry; apply Nat.eqb_neq; lia).
      apply in_inputs; trivial.
      + rewrite rest by assumption. pose proof (carry_is_less n (so_far t) column).
        assert (carry n (so_far t) column = 0 \/ carry n (so_far t) column = 1) as [-> | ->]
          by lia; cbn; auto.
      + apply in_sums_above; trivial. apply in_seq. lia.
  Qed.

  Definition filled (given decided : symbol) := match given with Asked => decided | _ => given end.

  Lemma row_adds : forall n t (given : nat -> symbol) width column from_right above_right,
    fits_right n t column from_right ->
    (forall i, given_in_column i (given i)) ->
    fill_row (beside_and_above cell) from_right above_right
        (map (fun i => [class n i; class_so_far t i]) (seq column width))
        (map given (seq column width)) =
      map (fun i => (filled (given i) (written (n + so_far t) i),
                     [S (carry n (so_far t) (S i))],
                     [class_of (given i); class (n + so_far t) i])) (seq column width).
  Proof.
    intros n t given. induction width; intros column from_right above_right fits standing; trivial.
    cbn [seq map fill_row hd_error tl]. unfold beside_and_above at 1.
    pose proof (cell_is_rule _ _ _ (input_is_checked _ _ _ _ _ fits (standing column))) as checked.
    rewrite rule_adds in checked by assumption.
    destruct (cell _ _ _) as [[decided to_left] to_below].
    destruct checked as [writes [-> ->]]. rewrite IHwidth; trivial.
    - f_equal. unfold filled. destruct (given column); auto. now rewrite writes.
    - split; [discriminate |]. trivial.
  Qed.

  Lemma margin_is_empty : forall given margin from_right above_right above row,
    given = Blank \/ given = Asked -> In from_right no_carry ->
    exists from_right' above_right', In from_right' no_carry /\
      fill_row (beside_and_above cell) from_right above_right (repeat [0; 0] margin ++ above)
          (repeat given margin ++ row) =
        repeat (Blank, [0], [0;
            0]) margin ++ fill_row (beside_and_above cell) from_right' above_right' above row.
  Proof.
    intros given. induction margin; intros from_right above_right above row stands_there enters.
    - now exists from_right, above_right.
    - cbn [repeat app fill_row hd_error tl]. unfold beside_and_above at 1.
      assert (In (given, from_right, Some [0; 0]) sum_inputs) as listed.
      { unfold sum_inputs. rewrite !in_app_iff. right. left.
        apply in_inputs; cbn; intuition. }
      pose proof (cell_is_rule _ _ _ listed) as checked.
      destruct (cell _ _ _) as [[decided to_left] to_below].
      destruct (IHmargin (Some [0]) (Some [0; 0]) above row stands_there) as [r [a [enters' same]]].
      { cbn. auto. }
      exists r, a. split; trivial. rewrite <- same.
      destruct stands_there as [-> | ->], enters as [<- | [<- | []]]; cbn in checked;
        destruct checked as [writes [-> ->]]; trivial; now rewrite writes.
  Qed.

  Lemma first_row_passes_down : forall symbols from_right above_right,
    In from_right no_carry -> Forall (fun given => In given (Blank :: digits)) symbols ->
    fill_row (beside_and_above cell) from_right above_right [] symbols =
      map (fun given => (given, [0], [class_of given; 0])) symbols.
  Proof.
    induction symbols as [| given symbols]; intros from_right above_right enters listed; trivial.
    cbn [fill_row hd_error tl map]. unfold beside_and_above at 1.
    inversion_clear listed as [| ? ? one rest].
    assert (In (given, from_right, None) sum_inputs) as checked.
    { unfold sum_inputs. rewrite !in_app_iff. left. apply in_inputs; cbn [In]; auto. }
    apply cell_is_rule in checked. cbn in checked.
    destruct (cell _ _ _) as [[decided to_left] to_below].
    destruct checked as [_ [-> ->]]. rewrite IHsymbols; cbn; auto. f_equal.
    destruct given; trivial. destruct one as [? | one]; [discriminate |].
    apply in_map_iff in one. now destruct one as [? [? _]].
  Qed.

  Definition passed_down (width margin n : nat) (t : option nat) : list message :=
    repeat [0; 0] margin ++ map (fun i => [class n i; class_so_far t i]) (seq 0 width).

  Lemma map_of_repeat : forall A B (f : A -> B) one count,
    map f (repeat one count) = repeat (f one) count.
  Proof. intros. induction count; cbn; [easy | now rewrite IHcount]. Qed.

  Lemma below_a_row : forall width margin n t given in_margin rest,
    in_margin = Blank \/ in_margin = Asked ->
    (forall i, given_in_column i (given i)) ->
    fill_below (beside_and_above cell) (passed_down width margin n t)
        ((repeat in_margin margin ++ map given (seq 0 width)) :: rest) =
      (repeat Blank margin
        ++ map (fun i => filled (given i) (written (n + so_far t) i)) (seq 0 width))
      :: fill_below (beside_and_above cell)
          (repeat [0; 0] margin
            ++ map (fun i => [class_of (given i); class (n + so_far t) i]) (seq 0 width)) rest.
  Proof.
    intros width margin n t given in_margin rest blank standing. cbn [fill_below].
    unfold passed_down.
    destruct (margin_is_empty in_margin margin None None
      (map (fun i => [class n i; class_so_far t i]) (seq 0 width)) (map given (seq 0 width)))
      as [from_right [above_right [enters ->]]]; trivial.
    { cbn. auto. }
    rewrite row_adds; trivial.
    - rewrite !map_app, !map_map. f_equal.
      + now rewrite !map_of_repeat.
      + f_equal. now rewrite !map_of_repeat.
    - split; [trivial | lia].
  Qed.

  Lemma written_is_given : forall n column, given_in_column column (written n column).
  Proof.
    intros. unfold given_in_column, written. pose proof (digit_is_less n column) as small.
    apply in_digits in small. unfold stands.
    destruct (column =? 0); cbn [orb]; [cbn [In]; auto |].
    destruct (base ^ column <=? n); cbn [In]; auto.
  Qed.

  Lemma filled_written : forall n decided column, filled
      (written n column) decided = written n column.
  Proof. intros. unfold written. now destruct (stands n column). Qed.

  Theorem rows_add : forall width margin sign last numbers n t,
    0 < sign -> last < base ^ sign ->
    fill_below (beside_and_above cell) (passed_down width margin n t)
        (sum_canvas width margin sign numbers last) =
      map (addend_row width margin) numbers
        ++ [last_addend_row width margin sign last;
            addend_row width margin (n + so_far t + list_sum numbers + last)].
  Proof.
    intros width margin sign last numbers. unfold sum_canvas.
    induction numbers as [| next numbers]; intros n t sign_is_left sign_is_free; cbn [map app].
    - unfold last_addend_row.
      rewrite below_a_row; [| auto |].
      2:{ intros i. destruct (i =? sign) eqn:at_sign; [| apply written_is_given].
          apply Nat.eqb_eq in at_sign. subst. unfold given_in_column.
          replace (sign =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn. auto. }
      f_equal.
      + f_equal. apply map_ext. intros i. destruct (i =? sign); [easy | apply filled_written].
      + replace (repeat [0;
          0] margin ++ _) with (passed_down width margin last (Some (n + so_far t))).
        2:{ unfold passed_down. f_equal. apply map_ext. intros i. cbn [class_so_far].
            destruct (i =? sign) eqn:at_sign; [| now rewrite class_of_written].
            apply Nat.eqb_eq in at_sign. subst. unfold class at 1. unfold stands at 1.
            replace (sign =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [orb].
            now replace (base ^ sign <=? last) with false by (symmetry; now apply Nat.leb_gt). }
        replace (repeat Asked (margin + width))
          with (repeat Asked margin ++ map (fun _ => Asked) (seq 0 width)).
        2:{ rewrite repeat_app. f_equal. clear. generalize 0.
        induction width; intros; cbn; [easy |].
            now rewrite IHwidth. }
        rewrite below_a_row; [| auto |].
        2:{ intros i. unfold given_in_column. destruct (i =? 0); cbn; auto. }
        cbn [fill_below filled]. do 2 f_equal. unfold addend_row, row. f_equal.
        apply map_ext. intros i. f_equal. cbn. lia.
    - unfold addend_row at 1, row. rewrite below_a_row; [| auto | intros; apply written_is_given].
      f_equal.
      + unfold addend_row, row. f_equal. apply map_ext. intros. apply filled_written.
      + replace (repeat [0;
          0] margin ++ _) with (passed_down width margin next (Some (n + so_far t))).
        2:{ unfold passed_down. f_equal. apply map_ext. intros. now rewrite class_of_written. }
        rewrite IHnumbers by assumption. cbn [so_far].
        change (list_sum (next :: numbers)) with (next + list_sum numbers).
        now replace (n + so_far t + (next + list_sum numbers)) with (next +
            (n + so_far t) + list_sum numbers) by lia.
  Qed.

  Theorem sums_are_correct : forall width margin sign numbers last,
    numbers <> [] -> 0 < sign -> last < base ^ sign ->
    fill (beside_and_above cell) (sum_canvas width margin sign numbers last) =
      solved_sum width margin sign numbers last.
  Proof.
    intros width margin sign [| first numbers] last some sign_is_left sign_is_free; [easy |].
    unfold fill, sum_canvas, solved_sum. cbn [map app fill_below].
    rewrite first_row_passes_down.
    - rewrite !map_map. cbn [fst snd]. rewrite map_id. f_equal.
      replace (map _ (addend_row width margin first)) with (passed_down width margin first None).
      + fold (sum_canvas width margin sign numbers last).
        rewrite (rows_add width margin sign last numbers first None) by assumption. cbn [so_far].
        change (list_sum (first :: numbers)) with (first + list_sum numbers).
        now rewrite Nat.add_0_r.
      + unfold passed_down, addend_row, row. rewrite map_app, map_of_repeat, map_map. f_equal.
        apply map_ext. intros. now rewrite class_of_written.
    - cbn. auto.
    - apply Forall_forall. unfold addend_row. intros given there.
      apply in_app_or in there as [there | there].
      + apply repeat_spec in there. subst. cbn. auto.
      + apply in_map_iff in there as [i [<- _]]. unfold written.
      destruct (stands first i); cbn; auto.
        right. apply in_digits, digit_is_less.
  Qed.

  (* The last row shows the sum, if the canvas is wide enough. *)
  Theorem sums_are_shown : forall width margin sign numbers last,
    numbers <> [] -> 0 < sign -> last < base ^ sign -> list_sum numbers + last < base ^ width ->
    let filled := fill (beside_and_above cell) (sum_canvas width margin sign numbers last) in
    filled = solved_sum width margin sign numbers last
    /\ value (skipn margin (List.last filled [])) = list_sum numbers + last.
  Proof.
    intros width margin sign numbers last some sign_is_left sign_is_free fits. cbn zeta.
    rewrite sums_are_correct by assumption. split; trivial. unfold solved_sum.
    replace (map _ numbers ++ _) with
      ((map (addend_row width margin) numbers ++ [last_addend_row width margin sign last])
        ++ [addend_row width margin (list_sum numbers + last)]) by now rewrite <- app_assoc.
    rewrite last_last. unfold addend_row. rewrite skipn_app, repeat_length, Nat.sub_diag.
    rewrite skipn_all2 by now rewrite repeat_length. now apply row_shows.
  Qed.
End Numbers.

(* 47 + 36 in four columns, without a margin and with the sign in column 3:
   __47
   +_36
   ....   which becomes   __83 *)
Example a_sum : sum_canvas 10 4 0 3 [47] 36 =
  [[Digit 7; Digit 4; Blank; Blank]; [Digit 6; Digit 3; Blank; Plus]; [Asked; Asked; Asked; Asked]].
Proof. reflexivity. Qed.
Example a_solved_sum : List.last (solved_sum 10 4 0 3 [47] 36) [] = [Digit 3; Digit 8; Blank;
    Blank].
Proof. reflexivity. Qed.
End Canvas.
Import Canvas.

(* ---- 3. Products ---- *)

(* a on top, the sign and b below it, then a row for the product of a and each digit of b, shifted
   to the left, and the row of the product. See the example at the end of the section. *)
Module Products.
Section Drawn.
  Variable base : nat.
  Hypothesis base_is_2_or_more : 2 <= base.
  Notation digit := (digit base). Notation stands := (stands base).
  Notation written := (written base).

  Variables width a b digits_of_b sign : nat.

  Definition multiplier_row :=
      map (fun i => if i =? sign then Times else written b i) (seq 0 width).
  Definition product_canvas :=
    [row base width a; multiplier_row] ++ repeat (repeat Asked width) (S digits_of_b).
  Definition partial_product (i : nat) :=
    map (fun j => if j <? i then Blank else written (a * digit b i) (j - i)) (seq 0 width).
  Definition solved_product :=
    [row base width a; multiplier_row] ++ map partial_product (seq 0 digits_of_b)
      ++ [row base width (a * b)].
End Drawn.

Section Standard.
  Variable base : nat.
  Definition special := S base.
  Definition operation := nat -> nat -> list (option message) -> message.
  Variable op : operation.

  Definition get (of : option message) (i : nat) :=
      match of with Some m => nth i m 0 | None => 0 end.
  Definition there (of : option message) := match of with Some _ => 1 | None => 0 end.
  Definition own (signals : message) : list (option message) :=
      [None; None; None; None; Some signals].

  (* A cell decides in fifteen steps, its ops, each from what it reads on the right, above, above left,
     above right, and from the steps before it. See canvas/cells/rules/long.py for the signals. *)
  Definition standard_cell (given : symbol) (right above above_left above_right : option message)
      : symbol * message * message :=
    let one i token messages := nth 0 (op i token messages) 0 in
    let adds := one 0 0 [None; Some [get above 4]; None; None; None] in
    let row := one 1 0 [None; Some [there above; get above 0]; None; None; None] in
    let number := one 2 (id_of given) [Some [get right 0]; None; None; None; Some [row]] in
    let arriving :=
      one 3 0 [None; Some [get above 2]; Some [get above_left 5]; None; Some [row; number]] in
    let zero :=
      one 4 0 [None; Some [get above 1; get above 3]; Some [get above_left 5]; None; Some [row]] in
    let multiplicand := one 5 0 [None; Some [get above 1]; None; Some [get above_right 6]; None] in
    let column_multiplicand := one 6 0 (own [row; number; multiplicand]) in
    let passing := one 7 0 (own [row; multiplicand]) in
    let column_multiplier := one 8 0 (own [row; arriving]) in
    let diagonal := one 9 0 [Some [get right 0]; None; None; None; Some [row; arriving]] in
    let multiplier :=
      one 10 0 [Some [get right 0]; Some [get above 3]; None; None; Some [row; arriving; adds]] in
    let product :=
      op 11 0 [Some [get right 1]; None; None; None; Some [multiplicand; multiplier]] in
    let sum :=
      op 12 0 [Some [get right 2]; Some [get above 4]; None; None; Some [nth 0 product 0]] in
    let total := one 13 0 (own [multiplier]) in
    let decided := one 14 0 (own [nth 0 product 0; total; nth 0 sum 0]) in
    (symbol_of decided,
     [multiplier; nth 1 product 0; nth 1 sum 0],
     [row; column_multiplicand; column_multiplier; zero; nth 0 sum 0; diagonal; passing]).

  (* The inputs that ops can have, with the correct outputs: a computation decides each line. *)
  Definition D := seq 1 base.
  Definition same_as (found expected : message) := same_message found expected.
  Notation "'each' x 'in' l , body" := (forallb (fun x => body) l)
    (at level 200, x name, l at level 100, body at level 200).

  Definition on_adds := each s in seq 0 (S special), same_as
      (op 0 0 [None; Some [s]; None; None; None]) [Nat.min 1 s].
  Definition on_row := each k in seq 0 4, same_as
      (op 1 0 [None; Some [Nat.min 1 k; k]; None; None; None]) [Nat.min 3 (S k)].
  Definition on_digits := each d in seq 0 base, each m in [0; special], each row in [1; 2],
    same_as (op 2 (id_of (Digit d)) [Some [m]; None; None; None; Some [row]]) [S d].
  Definition on_blanks :=
      each s in [Blank; Times], each row in (match s with Times => [2] | _ => [1; 2] end),
    same_as (op 2 (id_of s) [Some [special]; None; None; None; Some [row]]) [special].
  Definition on_asked := each m in seq 0 (S special),
    same_as (op 2 (id_of Asked) [Some [m]; None; None; None; Some [3]]) [0].
  Definition arriving_a := each n in special :: D,
    same_as (op 3 0 [None; Some [0]; Some [0]; None; Some [1; n]]) [n].
  Definition arriving_b := each n in special :: D, each d in [0; special],
    same_as (op 3 0 [None; Some [0]; Some [d]; None; Some [2; n]]) [n].
  Definition arriving_straight := each c in 0 :: D,
    same_as (op 3 0 [None; Some [c]; Some [0]; None; Some [3; 0]]) [c].
  Definition arriving_moved := each c in 0 :: D,
    same_as (op 3 0 [None; Some [0]; Some [c]; None; Some [3; 0]]) [c].
  Definition zero_a := same_as (op 4 0 [None; Some [0; 0]; Some [0]; None; Some [1]]) [0].
  Definition zero_b := each n in special :: D, each d in [0; special],
    same_as (op 4 0 [None; Some [n; 0]; Some [d]; None; Some [2]])
      [if (n =? 1) && (d =? special) then 1 else 0].
  Definition zero_first := each n in special :: D, each z in (if n =? 1 then [0; 1] else [0]),
    same_as (op 4 0 [None; Some [n; z]; Some [0]; None; Some [3]]) [z].
  Definition zero_later := each c in 0 :: D, each z in [0; 1],
    same_as (op 4 0 [None; Some [0; z]; Some [c]; None; Some [3]]) [z].
  Definition multiplicand_straight := each n in 0 :: special :: D,
    same_as (op 5 0 [None; Some [n]; None; Some [0]; None]) [n].
  Definition multiplicand_moved := each n in 0 :: special :: D,
    same_as (op 5 0 [None; Some [0]; None; Some [n]; None]) [n].
  Definition goes_down_a := each n in special :: D, same_as (op 6 0 (own [1; n; 0])) [n].
  Definition goes_down_b := each n in special :: D, each m in special :: D,
    same_as (op 6 0 (own [2; n; m])) [m].
  Definition goes_down_no_more := each m in 0 :: special :: D, same_as (op 6 0 (own [3; 0; m])) [0].
  Definition passes_a := same_as (op 7 0 (own [1; 0])) [0].
  Definition passes_b := each m in special :: D, same_as (op 7 0 (own [2; m])) [0].
  Definition passes := each m in 0 :: special :: D, same_as (op 7 0 (own [3; m])) [m].
  Definition column_a := each n in special :: D, same_as (op 8 0 (own [1; n])) [0].
  Definition column_b := each n in special :: D,
    same_as (op 8 0 (own [2; n])) [if n =? special then 0 else n].
  Definition column_later := each c in 0 :: D, same_as (op 8 0 (own [3; c])) [0].
  Definition first_columns (n m : nat) := (m =? special) || (n <? special).
  Definition diagonal_given := each row in [1; 2], each n in special :: D, each m in [0; special],
    implb (first_columns n m)
      (same_as (op 9 0 [Some [m]; None; None; None; Some [row; n]])
        [if (row =? 1) && (n =? special) then special else 0]).
  Definition diagonal_first := each c in 0 :: D,
    same_as (op 9 0 [Some [0]; None; None; None; Some [3; c]]) [0].
  Definition diagonal_later := each c in 0 :: D, each m in D,
    same_as (op 9 0 [Some [m]; None; None; None; Some [3; c]]) [c].
  Definition diagonal_total := same_as (op 9 0 [Some [special]; None; None; None; Some [3; 0]]) [0].
  Definition multiplier_given := each row in [1; 2], each n in special :: D, each m in [0; special],
    implb (first_columns n m)
      (same_as (op 10 0 [Some [m]; Some [0]; None; None; Some [row; n; 0]]) [special]).
  Definition multiplier_begins := each c in D, each z in [0; 1], each s in [0; 1],
    same_as (op 10 0 [Some [0]; Some [z]; None; None; Some [3; c; s]]) [if z =? 1 then 1 else c].
  Definition total_begins := each z in [0; 1],
    same_as (op 10 0 [Some [0]; Some [z]; None; None; Some [3; 0; 1]]) [special].
  Definition multiplier_goes := each m in D, each c in 0 :: D, each s in [0; 1],
    same_as (op 10 0 [Some [m]; Some [0]; None; None; Some [3; c; s]]) [m].
  Definition total_goes := each s in [0; 1],
    same_as (op 10 0 [Some [special]; Some [0]; None; None; Some [3; 0; s]]) [special].
  Definition product_none := each n in 0 :: special :: D,
    same_as (op 11 0 [Some [0]; None; None; None; Some [n; special]]) [0; 0].
  Definition product_before := each m in D,
    same_as (op 11 0 [Some [0]; None; None; None; Some [0; m]]) [if m =? 1 then 0 else S special;
        0].
  Definition product_units := each n in D, each m in D,
    same_as (op 11 0 [Some [0]; None; None; None; Some [n; m]])
      [if m =? 1 then special else S (pred n * pred m mod base); S (pred n * pred m / base)].
  Definition product_later := each n in D, each m in D, each c in seq 0 (Nat.max 1 (pred m)),
    same_as (op 11 0 [Some [S c]; None; None; None; Some [n; m]])
      [if m =? 1 then 0 else S ((pred n * pred m + c) mod base); S ((pred n * pred m + c) / base)].
  Definition product_ends := each m in D, each c in seq 0 (Nat.max 1 (pred m)),
    same_as (op 11 0 [Some [S c]; None; None; None; Some [special; m]])
      [if c =? 0 then 0 else S c; 0].
  Definition product_ended := each m in D,
    same_as (op 11 0 [Some [0]; None; None; None; Some [special; m]]) [0; 0].
  Definition sum_none := same_as (op 12 0 [Some [0]; Some [0]; None; None; Some [0]]) [0; 0].
  Definition sum_begins := each p in special :: D,
    same_as (op 12 0 [Some [0]; Some [0]; None; None; Some [p]]) [p; 1].
  Definition sum_units := each s in special :: D, each p in [0; S special],
    same_as (op 12 0 [Some [0]; Some [s]; None; None; Some [p]])
      [if (s =? special) && negb (p =? 0) then 1 else s; 1].
  Definition sum_later := each s in 0 :: D, each p in D, each c in [0; 1],
    same_as (op 12 0 [Some [S c]; Some [s]; None; None; Some [p]])
      [S ((pred s + pred p + c) mod base); S ((pred s + pred p + c) / base)].
  Definition sum_of_zeros := each s in 0 :: D, each p in [0; special; S special],
    same_as (op 12 0 [Some [1]; Some [s]; None; None; Some [p]])
      [if (s =? 0) && (p =? S special) then 1 else s; 1].
  Definition sum_ends := same_as (op 12 0 [Some [2]; Some [0]; None; None; Some [0]]) [2; 1].
  Definition is_total := each m in special :: D,
    same_as (op 13 0 (own [m])) [if m =? special then 1 else 0].
  Definition shows_total := each s in 0 :: special :: D,
    same_as (op 14 0 (own [0; 1;
        s])) [if s =? 0 then 11 else id_of (Digit (if s =? special then 0 else pred s))].
  Definition shows_digit := each p in D, each s in D,
    same_as (op 14 0 (own [p; 0; s])) [id_of (Digit (pred p))].
  Definition shows_zero := each s in 0 :: special :: D,
    same_as (op 14 0 (own [special; 0; s])) [id_of (Digit 0)].
  Definition shows_blank := each s in 0 :: special :: D, same_as (op 14 0 (own [0; 0; s])) [11].
  Definition shows_no_zero := each s in D, same_as (op 14 0 (own [S special; 0; s])) [11].

  Definition requirements :=
    [on_adds; on_row; on_digits; on_blanks; on_asked; arriving_a; arriving_b; arriving_straight;
     arriving_moved; zero_a; zero_b; zero_first; zero_later; multiplicand_straight;
     multiplicand_moved; goes_down_a; goes_down_b; goes_down_no_more; passes_a; passes_b; passes;
     column_a; column_b; column_later; diagonal_given; diagonal_first; diagonal_later;
     diagonal_total; multiplier_given; multiplier_begins; total_begins; multiplier_goes; total_goes;
     product_none; product_before; product_units; product_later; product_ends; product_ended;
     sum_none; sum_begins; sum_units; sum_later; sum_of_zeros; sum_ends; is_total; shows_total;
     shows_digit; shows_zero; shows_blank; shows_no_zero].

  Definition multiplies_in_every_op := forallb (fun one => one) requirements.

  Hypothesis base_is_2_or_more : 2 <= base.
  Hypothesis agrees : multiplies_in_every_op = true.

  Lemma holds : forall one, In one requirements -> one = true.
  Proof. apply forallb_forall. exact agrees. Qed.

  Lemma same_as_iff : forall one other, same_as one other = true <-> one = other.
  Proof.
    split; [apply same_message_equal | intros ->]. unfold same_as.
    induction other; cbn; [easy |]. now rewrite Nat.eqb_refl.
  Qed.
  Lemma implb_iff : forall one other, implb one other = true <-> (one = true -> other = true).
  Proof. intros [] []; cbn; intuition. Qed.

  Ltac listed := cbv [In]; repeat match goal with
    | |- ?x = ?x \/ _ => left; reflexivity
    | |- _ \/ _ => right
    end.
  Ltac check name :=
    let C := fresh "C" in
    assert (C : name = true) by (apply holds; unfold requirements; listed);
    unfold name in C; repeat setoid_rewrite forallb_forall in C;
    try setoid_rewrite implb_iff in C; setoid_rewrite same_as_iff in C.

  Variables width a b digits_of_b sign : nat.
  Notation digit := (digit base). Notation stands := (stands base). Notation class := (class base).

  (* The digits of a and b as classes. *)
  Definition A k := if stands a k then S (digit a k) else special.
  Definition B k := if stands b k then S (digit b k) else special.
  Definition C k := if stands b k then S (digit b k) else 0.

  Lemma class_in : forall n k, stands n k = true -> In (S (digit n k)) D.
  Proof. intros. apply in_seq. pose proof (digit_is_less base base_is_2_or_more n k). lia. Qed.
  Lemma class_is_in : forall n k, stands n k = true -> In (class n k) D.
  Proof. intros n k at_k. unfold Canvas.class. rewrite at_k. now apply class_in. Qed.
  Lemma A_in : forall k, In (A k) (special :: D).
  Proof. intros. unfold A. destruct (stands a k) eqn:?; [right; now apply class_in | now left]. Qed.
  Lemma B_in : forall k, In (B k) (special :: D).
  Proof. intros. unfold B. destruct (stands b k) eqn:?; [right; now apply class_in | now left]. Qed.
  Lemma C_in : forall k, In (C k) (0 :: D).
  Proof. intros. unfold C. destruct (stands b k) eqn:?; [right; now apply class_in | now left]. Qed.

  Definition before {M} (f : nat -> M) (j : nat) : option M :=
    match j with 0 => None | S j => Some (f j) end.
  Definition after {M} (f : nat -> M) (j : nat) : option M :=
    if S j <? width then Some (f (S j)) else None.

  (* What cells pass on, row by row: first that of a. Each lemma row_... states that a cell does so
     if its neighbours did. *)
  Definition left_a (j : nat) : message := [special; 0; 0].
  Definition down_a (j : nat) : message :=
    [1; A j; 0; 0; 0; if stands a j then 0 else special; 0].

  Definition decides (given : symbol) (right above above_left above_right : option message)
      (shown : symbol) (to_left to_below : message) :=
    let '(decided, l, d) := standard_cell given right above above_left above_right in
    (given = Asked -> decided = shown) /\ l = to_left /\ d = to_below.

  Definition right_a (j : nat) := match j with 0 => 0 | S _ => special end.
  Lemma right_a_in : forall j, In (right_a j) [0; special].
  Proof. intros []; cbn; auto. Qed.

  Lemma units_stand : forall n, stands n 0 = true.
  Proof. reflexivity. Qed.

  Lemma row_a : forall j,
    decides (written base a j) (before left_a j) None None None Blank (left_a j) (down_a j).
  Proof.
    intros j. unfold decides, standard_cell.
    replace (get (before left_a j) 0) with (right_a j) by now destruct j.
    replace (get (before left_a j) 1) with 0 by now destruct j.
    replace (get (before left_a j) 2) with 0 by now destruct j.
    cbn [get there].
    check on_adds. rewrite (C0 0) by (apply in_seq; lia). clear C0.
    assert (op 1 0 [None; Some [0; 0]; None; None; None] = [1]) as ->.
    { check on_row. apply (C0 0). apply in_seq. lia. }
    cbn [nth Nat.min].
    assert (op 2 (id_of (written base a j)) [Some [right_a j]; None; None; None;
        Some [1]] = [A j]) as ->.
    { unfold written, A. destruct (stands a j) eqn:at_j.
      - check on_digits. apply C0; [| apply right_a_in | cbn; auto].
        apply in_seq. pose proof (digit_is_less base base_is_2_or_more a j). lia.
      - destruct j; [discriminate |]. check on_blanks. apply (C0 Blank); cbn; auto. }
    cbn [nth]. pose proof (A_in j) as in_A.
    check arriving_a. rewrite C0 by assumption. clear C0. cbn [nth].
    check zero_a. rewrite C0. clear C0.
    check multiplicand_straight. rewrite (C0 0) by (cbn; auto). clear C0. cbn [nth].
    check goes_down_a. rewrite C0 by assumption. clear C0.
    check passes_a. rewrite C0. clear C0.
    check column_a. rewrite C0 by assumption. clear C0.
    assert (first_columns (A j) (right_a j) = true) as first.
    { unfold first_columns, A. destruct j; cbn [right_a]; [| now rewrite Nat.eqb_refl].
      rewrite units_stand. apply orb_true_iff. right. apply Nat.ltb_lt. unfold special.
      pose proof (digit_is_less base base_is_2_or_more a 0). lia. }
    check diagonal_given. rewrite (C0 1) by (trivial; first [apply right_a_in | cbn; auto]).
    clear C0.
    check multiplier_given. rewrite (C0 1) by (trivial; first [apply right_a_in | cbn; auto]).
    clear C0.
    cbn [nth].
    check product_none. rewrite (C0 0) by (cbn; auto). clear C0. cbn [nth].
    check sum_none. rewrite C0. clear C0. cbn [nth].
    repeat split.
    - unfold written. destruct (stands a j); discriminate.
    - unfold down_a. cbn [Nat.eqb andb]. repeat f_equal. unfold A.
      destruct (stands a j); [| now rewrite Nat.eqb_refl].
      replace (S (digit a j) =? special) with false; trivial. symmetry. apply Nat.eqb_neq.
      unfold special. pose proof (digit_is_less base base_is_2_or_more a j). lia.
  Qed.

  Hypothesis sign_is_left : 0 < sign.
  Hypothesis sign_is_free : b < base ^ sign.
  Hypothesis two_columns : 2 <= width.

  Definition given_b (j : nat) := if j =? sign then Times else written base b j.
  Definition z (j : nat) := if (j =? 0) && (a =? 0) then 1 else 0.
  Definition down_b (j : nat) : message := [2; A j; C j; z j; 0; 0; 0].
  Definition ended (j : nat) :=
    if S j <? width then if stands a (S j) then 0 else special else 0.

  Lemma not_special : forall n k, S (digit n k) =? special = false.
  Proof.
    intros. apply Nat.eqb_neq. unfold special.
    pose proof (digit_is_less base base_is_2_or_more n k). lia.
  Qed.

  Lemma stands_iff : forall n k, 0 < k -> (stands n k = true <-> base ^ k <= n).
  Proof.
    intros n k positive. unfold Canvas.stands.
    replace (k =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). apply Nat.leb_le.
  Qed.
  Lemma stands_not : forall n k, stands n k = false -> 0 < k /\ n < base ^ k.
  Proof.
    intros n k. unfold Canvas.stands. destruct k; [discriminate |]. cbn [Nat.eqb orb].
    intros beyond%Nat.leb_gt. split; [lia | trivial].
  Qed.

  Lemma zero_is_found : forall j,
    (if (A j =? 1) && (ended j =? special) then 1 else 0) = z j.
  Proof.
    intros j. unfold z. replace ((A j =? 1) && (ended j =? special)) with ((j =? 0) && (a =? 0)).
    { reflexivity. }
    pose proof (power_is_positive base base_is_2_or_more j) as positive.
    unfold A, ended. destruct (stands a j) eqn:at_j.
    - destruct (digit a j =? 0) eqn:is_zero; cbn [Nat.eqb].
      + rewrite is_zero. cbn [andb].
        destruct (Nat.eq_0_gt_0_cases j) as [-> | left_of_units].
        * replace (1 <? width) with true by (symmetry; apply Nat.ltb_lt; lia). cbn [Nat.eqb andb].
          destruct (stands a 1) eqn:at_1.
          -- apply stands_iff in at_1; [| lia]. rewrite Nat.pow_1_r in at_1.
             replace (0 =? special) with false by reflexivity.
             apply Nat.eqb_neq. lia.
          -- rewrite Nat.eqb_refl. apply stands_not in at_1 as [_ at_1].
          rewrite Nat.pow_1_r in at_1.
             apply Nat.eqb_eq in is_zero. unfold Canvas.digit in is_zero.
             rewrite Nat.pow_0_r, Nat.div_1_r, Nat.mod_small in is_zero by assumption. now subst.
        * replace (j =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [andb]. symmetry.
          destruct (S j <? width); [| reflexivity].
          destruct (stands a (S j)) eqn:beyond; [reflexivity |].
          exfalso. apply stands_not in beyond as [_ beyond]. apply stands_iff in at_j; trivial.
          apply Nat.eqb_eq in is_zero. unfold Canvas.digit in is_zero.
          rewrite Nat.mod_small in is_zero.
          -- apply Nat.div_small_iff in is_zero; lia.
          -- apply Nat.div_lt_upper_bound; [lia |]. rewrite Nat.pow_succ_r' in beyond. lia.
      + rewrite is_zero. cbn [andb]. destruct (j =? 0) eqn:at_0; [cbn [andb] | reflexivity].
        apply Nat.eqb_eq in at_0. subst. apply Nat.eqb_neq. intros ->. apply Nat.eqb_neq in is_zero.
        apply is_zero. unfold Canvas.digit. now rewrite Nat.div_0_l, Nat.mod_0_l by lia.
    - replace (special =? 1) with false by (symmetry; apply Nat.eqb_neq; unfold special; lia).
      apply stands_not in at_j as [left_of_units _].
      now replace (j =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
  Qed.

  Ltac in_list := cbn [In]; auto 6.

  Lemma row_b : forall j,
    decides (given_b j) (before left_a j) (Some (down_a j)) (after down_a j) (before down_a j)
      Blank (left_a j) (down_b j).
  Proof.
    intros j. unfold decides, standard_cell.
    replace (get (before left_a j) 0) with (right_a j) by now destruct j.
    replace (get (before left_a j) 1) with 0 by now destruct j.
    replace (get (before left_a j) 2) with 0 by now destruct j.
    replace (get (before down_a j) 6) with 0 by now destruct j.
    replace (get (after down_a j) 5) with (ended j)
      by (unfold after, ended; now destruct (S j <? width)).
    assert (In (ended j) [0; special]) as in_ended.
    { unfold ended. destruct (S j <? width), (stands a (S j)); cbn; auto. }
    cbn [get there down_a nth].
    pose proof (A_in j) as in_A. pose proof (B_in j) as in_B.
    pose proof (right_a_in j) as in_right.
    check on_adds. rewrite (C0 0) by (apply in_seq; lia). clear C0. cbn [nth Nat.min].
    assert (op 1 0 [None; Some [1; 1]; None; None; None] = [2]) as ->.
    { check on_row. apply (C0 1). apply in_seq. lia. }
    cbn [nth].
    assert (op 2 (id_of (given_b j)) [Some [right_a j]; None; None; None; Some [2]] = [B j]) as ->.
    { unfold given_b, written, B. destruct (j =? sign) eqn:at_sign.
      - apply Nat.eqb_eq in at_sign. subst j. destruct (stands b sign) eqn:at_j.
        + apply stands_iff in at_j; lia.
        + destruct sign; [lia |]. check on_blanks. apply (C0 Times); cbn; auto.
      - destruct (stands b j) eqn:at_j.
        + check on_digits. apply C0; [| assumption | cbn; auto].
          apply in_seq. pose proof (digit_is_less base base_is_2_or_more b j). lia.
        + destruct j; [discriminate |]. check on_blanks. apply (C0 Blank); cbn; auto. }
    cbn [nth].
    check arriving_b. rewrite C0 by assumption. clear C0. cbn [nth].
    check zero_b. rewrite C0 by assumption. clear C0. cbn [nth]. rewrite zero_is_found.
    check multiplicand_straight. rewrite C0 by (right; assumption). clear C0. cbn [nth].
    check goes_down_b. rewrite C0 by assumption. clear C0. cbn [nth].
    check passes_b. rewrite C0 by assumption. clear C0. cbn [nth].
    check column_b. rewrite C0 by assumption. clear C0. cbn [nth].
    assert (first_columns (B j) (right_a j) = true) as first.
    { unfold first_columns, B. destruct j; cbn [right_a]; [| now rewrite Nat.eqb_refl].
      rewrite units_stand. apply orb_true_iff. right. apply Nat.ltb_lt. unfold special.
      pose proof (digit_is_less base base_is_2_or_more b 0). lia. }
    check diagonal_given. rewrite (C0 2) by (trivial; in_list). clear C0. cbn [nth Nat.eqb andb].
    check multiplier_given. rewrite (C0 2) by (trivial; in_list). clear C0.
    cbn [nth].
    check product_none. rewrite C0 by (right; assumption). clear C0. cbn [nth].
    check sum_none. rewrite C0. clear C0. cbn [nth].
    repeat split.
    - unfold given_b, written. destruct (j =? sign), (stands b j); discriminate.
    - unfold down_b. do 2 f_equal. f_equal. unfold B, C.
      destruct (stands b j); [now rewrite not_special | now rewrite Nat.eqb_refl].
  Qed.

  Hypothesis b_has_digits : 0 < digits_of_b.
  Hypothesis b_has_them : stands b (digits_of_b - 1) = true.
  Hypothesis b_has_no_more : b < base ^ digits_of_b.
  Hypothesis wide_enough : digits_of_b <= width.

  (* Of row i of the products and column j: the digit of b (q), its class (m), the class of the digit
     of a (M), the product (P), the sum of the products before it (T), and the classes of a sum, a
     product, its carry and the carry of the sum (su, pc, ca, sc). *)
  Definition q (i : nat) := if a =? 0 then 0 else digit b i.
  Definition m (i : nat) := if i <? digits_of_b then S (q i) else special.
  Definition M (i j : nat) := if j <? i then 0 else A (j - i).
  Definition P (i : nat) := a * q i * base ^ i.
  Definition T (i : nat) := a * (b mod base ^ i).
  Definition shows (n j : nat) :=
    if n =? 0 then (if j =? 0 then special else 0) else class n j.
  Definition su (i j : nat) := match i with 0 => 0 | S _ => shows (T i) j end.
  Definition pc (i j : nat) :=
    if i <? digits_of_b then
      if j <? i then (if q i =? 0 then 0 else S special)
      else if q i =? 0 then (if j - i =? 0 then special else 0) else class (a * q i) (j - i)
    else 0.
  Definition ca (i j : nat) :=
    if (i <? digits_of_b) && (i <=? j) && stands a (j - i)
    then S (a mod base ^ S (j - i) * q i / base ^ S (j - i)) else 0.
  Definition sc (i j : nat) := S (carry base (T i) (P i) (S j)).
  Definition left_p (i j : nat) : message := [m i; ca i j; sc i j].
  Definition diagonal_p (i j : nat) := if j =? 0 then 0 else C (i + j).
  Definition down_p (i j : nat) : message :=
    [3; 0; 0; z j; su (S i) j; diagonal_p i j; M i j].
  Definition up (i : nat) := match i with 0 => down_b | S i => down_p i end.
  Definition shown (i j : nat) :=
    if i <? digits_of_b then if j <? i then Blank else written base (a * digit b i) (j - i)
    else written base (a * b) j.

  Lemma power : forall k, 0 < base ^ k.
  Proof. apply power_is_positive. assumption. Qed.
  Lemma q_is_less : forall i, q i < base.
  Proof.
    intros. unfold q. pose proof (digit_is_less base base_is_2_or_more b i).
    destruct (a =? 0); lia.
  Qed.
  Lemma a_q : forall i, a * q i = a * digit b i.
  Proof. intros. unfold q. destruct (a =? 0) eqn:none; [apply Nat.eqb_eq in none; lia | trivial].
  Qed.
  Lemma q_0 : forall i, a * q i = 0 -> q i = 0.
  Proof. intros i none. unfold q in *. destruct (a =? 0) eqn:some; trivial.
  apply Nat.eqb_neq in some. nia. Qed.

  Lemma some_factor : forall i, P i <> 0 -> a <> 0.
  Proof. intros i some none. apply some. unfold P. now rewrite none. Qed.

  Lemma C_beyond : forall k, digits_of_b <= k -> C k = 0.
  Proof.
    intros k beyond. unfold C. destruct (stands b k) eqn:at_k; trivial.
    apply stands_iff in at_k; [| lia].
    assert (base ^ digits_of_b <= base ^ k) by (apply Nat.pow_le_mono_r; lia). lia.
  Qed.
  Lemma C_within : forall k, k < digits_of_b -> C k = S (digit b k).
  Proof.
    intros k within. unfold C. destruct (stands b k) eqn:at_k; trivial.
    apply stands_not in at_k as [positive beyond]. apply stands_iff in b_has_them; [| lia].
    assert (base ^ k <= base ^ (digits_of_b - 1)) by (apply Nat.pow_le_mono_r; lia). lia.
  Qed.

  Lemma digit_zero : forall n k, n < base ^ k -> digit n k = 0.
  Proof. intros. apply digit_beyond; assumption. Qed.

  Lemma P_beyond : forall i, digits_of_b <= i -> P i = 0.
  Proof.
    intros i beyond. unfold P, q. rewrite digit_zero.
    - destruct (a =? 0); lia.
    - assert (base ^ digits_of_b <= base ^ i) by (apply Nat.pow_le_mono_r; lia). lia.
  Qed.

  Lemma T_next : forall i, T (S i) = T i + P i.
  Proof.
    intros i. unfold T, P. rewrite a_q. unfold Canvas.digit. pose proof (power i).
    rewrite Nat.pow_succ_r', (Nat.mul_comm base), Nat.mod_mul_r by lia. lia.
  Qed.
  Lemma T_0 : T 0 = 0.
  Proof. unfold T. rewrite Nat.pow_0_r, Nat.mod_1_r. lia. Qed.
  Lemma T_all : T (S digits_of_b) = a * b.
  Proof.
    rewrite T_next, P_beyond by lia. unfold T. rewrite Nat.mod_small by assumption. lia.
  Qed.

  (* Columns of partial products. *)
  Lemma P_before : forall i j, j < i -> P i mod base ^ j = 0 /\ P i mod base ^ S j = 0 /\ digit
      (P i) j = 0.
  Proof.
    intros i j is_before. unfold P. pose proof (power j).
    replace (base ^ i) with (base ^ (i - S j) * base * base ^ j).
    2:{ rewrite (Nat.mul_comm _ base), <- Nat.pow_succ_r', <- Nat.pow_add_r. f_equal. lia. }
    repeat split.
    - rewrite !Nat.mul_assoc. apply Nat.mod_mul. lia.
    - rewrite Nat.pow_succ_r'. rewrite <- (Nat.mul_assoc (base ^ (i - S j))), !Nat.mul_assoc.
      rewrite <- (Nat.mul_assoc _ base). apply Nat.mod_mul. nia.
    - unfold Canvas.digit. rewrite !Nat.mul_assoc, Nat.div_mul by lia. apply Nat.mod_mul. lia.
  Qed.
  Lemma P_from : forall i j, i <= j -> digit (P i) j = digit (a * q i) (j - i).
  Proof.
    intros i j is_after. unfold P, Canvas.digit. f_equal.
    replace (base ^ j) with (base ^ (j - i) * base ^ i) by (rewrite <- Nat.pow_add_r; f_equal; lia).
    apply Nat.div_mul_cancel_r; [pose proof (power (j - i)) | pose proof (power i)]; lia.
  Qed.
  Lemma no_carry_before : forall i j, j <= i -> carry base (T i) (P i) j = 0.
  Proof.
    intros i j is_before. unfold carry. pose proof (power j).
    destruct (Nat.eq_dec (P i) 0) as [none | some].
    - rewrite none, Nat.mod_0_l, Nat.add_0_r by lia. apply Nat.div_small, Nat.mod_upper_bound. lia.
    - assert (P i mod base ^ j = 0) as ->.
      { destruct (Nat.eq_dec j i) as [-> | ]; [| apply P_before; lia].
        unfold P. apply Nat.mod_mul. lia. }
      rewrite Nat.add_0_r. apply Nat.div_small, Nat.mod_upper_bound. lia.
  Qed.
  Lemma no_carry_of_0 : forall i j, P i = 0 -> carry base (T i) (P i) j = 0.
  Proof.
    intros i j ->. unfold carry. pose proof (power j).
    rewrite Nat.mod_0_l, Nat.add_0_r by lia. apply Nat.div_small, Nat.mod_upper_bound. lia.
  Qed.

  (* A digit of a times a digit of b, with the carry. *)
  Definition c (i k : nat) := a mod base ^ k * q i / base ^ k.
  Lemma c_is_less : forall i k, c i k < Nat.max 1 (q i).
  Proof.
    intros. unfold c. pose proof (power k). pose proof (Nat.mod_upper_bound a (base ^ k)).
    apply Nat.div_lt_upper_bound; [lia |]. destruct (q i); [lia |].
    rewrite Nat.max_r by lia. nia.
  Qed.
  Lemma c_0 : forall i, c i 0 = 0.
  Proof. intros. unfold c. now rewrite Nat.pow_0_r, Nat.mod_1_r. Qed.
  Lemma column_multiplies : forall i k,
    let total := digit a k * q i + c i k in
    digit (a * q i) k = total mod base /\ c i (S k) = total / base.
  Proof.
    intros i k. unfold c, Canvas.digit. rewrite (Nat.pow_succ_r' base k). pose proof (power k).
    set (B' := base ^ k) in *. cbn zeta. rewrite (Nat.mul_comm base B'), Nat.mod_mul_r by lia.
    set (a0 := a mod B'). set (c0 := a0 * q i / B').
    pose proof (Nat.div_mod a B') as whole. pose proof (Nat.div_mod (a0 * q i) B') as rest.
    pose proof (Nat.mod_upper_bound (a0 * q i) B') as less.
    fold a0 in whole. fold c0 in rest. set (r := (a0 * q i) mod B') in *.
    split.
    - replace (a * q i / B') with (a / B' * q i + c0) by (apply Nat.div_unique with r; nia).
      rewrite <- (Nat.add_mod_idemp_l (_ * _)), <- (Nat.mul_mod_idemp_l (a / B')) by lia.
      now rewrite Nat.add_mod_idemp_l by lia.
    - rewrite <- Nat.div_div by lia. f_equal. symmetry. apply Nat.div_unique with r; nia.
  Qed.
  Lemma ends_with_carry : forall i k, a < base ^ k -> 0 < k ->
    class (a * q i) k = if c i k =? 0 then 0 else S (c i k).
  Proof.
    intros i k ended_before positive. unfold c. rewrite Nat.mod_small by assumption.
    pose proof (power k). pose proof (q_is_less i). unfold Canvas.class.
    destruct (stands (a * q i) k) eqn:at_k.
    - apply stands_iff in at_k; trivial. unfold Canvas.digit.
      assert (1 <= a * q i / base ^ k) by (apply Nat.div_le_lower_bound; lia).
      replace (a * q i / base ^ k =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
      f_equal. apply Nat.mod_small. apply Nat.div_lt_upper_bound; [lia |]. nia.
    - apply stands_not in at_k as [_ less]. now rewrite Nat.div_small.
  Qed.

  Lemma M_in : forall i j, In (M i j) (0 :: special :: D).
  Proof.
    intros. unfold M. destruct (j <? i); [now left | right; apply A_in].
  Qed.
  Lemma m_of : forall i, i < digits_of_b -> m i = S (q i).
  Proof. intros i less. unfold m. apply Nat.ltb_lt in less. now rewrite less. Qed.
  Lemma m_total : m digits_of_b = special.
  Proof. unfold m. now rewrite Nat.ltb_irrefl. Qed.
  Lemma q_in : forall i, In (S (q i)) D.
  Proof. intros. apply in_seq. pose proof (q_is_less i). lia. Qed.

  Definition right_carry (i j : nat) := match j with 0 => 0 | S j => ca i j end.

  Lemma product_op : forall i j, i <= digits_of_b ->
    op 11 0 [Some [right_carry i j]; None; None; None; Some [M i j; m i]] = [pc i j; ca i j].
  Proof.
    intros i j within. unfold pc, right_carry.
    destruct (i <? digits_of_b) eqn:multiplies.
    2:{ apply Nat.ltb_ge in multiplies. assert (i = digits_of_b) as -> by lia.
        replace (ca digits_of_b j) with 0 by (unfold ca; now rewrite Nat.ltb_irrefl).
        replace (match j with 0 => 0 | S j0 => ca digits_of_b j0 end) with 0
          by (unfold ca; rewrite Nat.ltb_irrefl; now destruct j).
        rewrite m_total. check product_none. apply C0, M_in. }
    pose proof multiplies as less. apply Nat.ltb_lt in less. rewrite m_of by assumption.
    pose proof (q_in i) as in_D. unfold M.
    destruct (j <? i) eqn:is_before.
    { apply Nat.ltb_lt in is_before.
      replace (match j with 0 => 0 | S j0 => ca i j0 end) with 0.
      2:{ destruct j; trivial. unfold ca.
      replace (i <=? j) with false; [now rewrite andb_false_r |].
          symmetry. apply Nat.leb_gt. lia. }
      replace (ca i j) with 0.
      2:{ unfold ca. replace (i <=? j) with false; [now rewrite andb_false_r |].
          symmetry. apply Nat.leb_gt. lia. }
      check product_before. now apply C0. }
    apply Nat.ltb_ge in is_before.
    assert (ca i j = if stands a (j - i) then S (c i (S (j - i))) else 0) as ->.
    { unfold ca, c. rewrite multiplies.
    now replace (i <=? j) with true by (symmetry; now apply Nat.leb_le). }
    destruct (Nat.eq_dec j i) as [-> | is_after].
    { rewrite Nat.sub_diag. rewrite units_stand. cbn [Nat.eqb].
      replace (match i with 0 => 0 | S j0 => ca i j0 end) with 0.
      2:{ destruct i; trivial. unfold ca.
      replace (S i <=? i) with false; [now rewrite andb_false_r |].
          symmetry. apply Nat.leb_gt. lia. }
      destruct (column_multiplies i 0) as [shown_digit carried]. rewrite c_0, Nat.add_0_r in *.
      unfold A. rewrite units_stand. check product_units.
      rewrite C0 by (trivial; now apply class_in). cbn [pred]. rewrite <- carried, <- shown_digit.
      unfold Canvas.class. rewrite units_stand. now destruct (q i). }
    set (k := j - i) in *. assert (0 < k) as positive by lia.
    replace (k =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
    assert (match j with 0 => 0 | S j0 => ca i j0 end =
            if stands a (pred k) then S (c i k) else 0) as ->.
    { destruct j; [lia |]. unfold ca, c. rewrite multiplies.
      replace (i <=? j) with true by (symmetry; apply Nat.leb_le; lia).
      replace (pred k) with (j - i) by lia. now replace (S (j - i)) with k by lia. }
    unfold A. destruct (stands a k) eqn:at_k.
    - assert (stands a (pred k) = true) as ->.
      { destruct (Nat.eq_dec k 1) as [-> | ]; trivial. apply stands_iff in at_k; trivial.
        apply stands_iff; [lia |].
        assert (base ^ pred k <= base ^ k) by (apply Nat.pow_le_mono_r; lia). lia. }
      destruct (column_multiplies i k) as [shown_digit carried].
      check product_later. rewrite C0 with (x := S (digit a k)); trivial; try now apply class_in.
      2:{ apply in_seq. cbn [pred]. pose proof (c_is_less i k). lia. }
      cbn [pred]. rewrite <- carried, <- shown_digit. f_equal.
      destruct (q i =? 0) eqn:none; [apply Nat.eqb_eq in none; now rewrite none |].
      replace (S (q i) =? 1) with false
          by (symmetry; apply Nat.eqb_neq; apply Nat.eqb_neq in none; lia).
      unfold Canvas.class. destruct (stands (a * q i) k) eqn:stays; trivial. exfalso.
      apply stands_not in stays as [_ less']. apply stands_iff in at_k; trivial.
      apply Nat.eqb_neq in none. nia.
    - apply stands_not in at_k as [_ ended_here].
      rewrite (ends_with_carry i k) by assumption.
      assert (c i k = 0 \/ q i <> 0) as no_carry_of_none.
      { pose proof (c_is_less i k). destruct (q i); [left; cbn in *; lia | now right]. }
      destruct (stands a (pred k)) eqn:before_k.
      + check product_ends. rewrite C0; trivial.
        2:{ apply in_seq. cbn [pred]. pose proof (c_is_less i k). lia. }
        destruct (q i =? 0) eqn:none; trivial. apply Nat.eqb_eq in none.
        destruct no_carry_of_none as [-> | ]; [easy | contradiction].
      + check product_ended. rewrite C0 by assumption.
        apply stands_not in before_k as [at_least ended_before].
        assert (c i k = 0) as ->.
        { unfold c. rewrite Nat.mod_small by assumption. apply Nat.div_small.
          pose proof (q_is_less i). replace k with (S (pred k)) by lia. rewrite Nat.pow_succ_r'.
          nia. }
        now destruct (q i =? 0).
  Qed.

  Lemma P_at_least : forall i, a <> 0 -> q i <> 0 -> base ^ i <= P i.
  Proof. intros. unfold P. assert (1 <= a * q i) by nia. nia. Qed.

  Lemma T_at_most : forall i, q i <> 0 -> T i <= P i.
  Proof.
    intros i no_zero. unfold T, P. pose proof (power i).
    pose proof (Nat.mod_upper_bound b (base ^ i)). rewrite <- Nat.mul_assoc.
    apply Nat.mul_le_mono_l.
    assert (base ^ i * 1 <= base ^ i * q i) by (apply Nat.mul_le_mono_l; lia).
    lia.
  Qed.

  Lemma P_class : forall i j, a <> 0 -> q i <> 0 -> i <= j -> 0 < j ->
    class (P i) j = class (a * q i) (j - i).
  Proof.
    intros i j some_a no_zero is_after positive. unfold Canvas.class. rewrite P_from by assumption.
    replace (stands (P i) j) with (stands (a * q i) (j - i)); trivial.
    pose proof (power i) as power_i. assert (1 <= a * q i) as some by nia.
    assert (base ^ j = base ^ (j - i) * base ^ i) as split_power
      by (rewrite <- Nat.pow_add_r; f_equal; lia).
    unfold P. destruct (Nat.eq_dec j i) as [-> | ].
    - rewrite Nat.sub_diag. symmetry. apply stands_iff; trivial. nia.
    - destruct (stands (a * q i * base ^ i) j) eqn:p_stands.
      + apply stands_iff in p_stands; trivial. apply stands_iff; [lia |].
        rewrite split_power in p_stands. now apply Nat.mul_le_mono_pos_r in p_stands.
      + apply stands_not in p_stands as [_ p_less].
        destruct (stands (a * q i) (j - i)) eqn:stays; trivial. exfalso.
        apply stands_iff in stays; [| lia]. rewrite split_power in p_less.
        apply Nat.mul_lt_mono_pos_r in p_less; lia.
  Qed.

  Definition right_sum_carry (i j : nat) := match j with 0 => 0 | S j => sc i j end.

  Lemma shows_in : forall n j, In (shows n (S j)) (0 :: D).
  Proof.
    intros. unfold shows. destruct (n =? 0); [now left |]. unfold Canvas.class.
    destruct (stands n (S j)) eqn:?; [right; now apply class_in | now left].
  Qed.
  Lemma shows_units : forall n, shows n 0 = if n =? 0 then special else S (digit n 0).
  Proof. reflexivity. Qed.
  Lemma shows_left : forall n j, shows n (S j) = class n (S j).
  Proof.
    intros. unfold shows. destruct (n =? 0) eqn:none; trivial. apply Nat.eqb_eq in none. subst.
    unfold Canvas.class, Canvas.stands. cbn [Nat.eqb orb].
    replace (base ^ S j <=? 0) with false; trivial. symmetry. apply Nat.leb_gt, power.
  Qed.

  Lemma sum_op : forall i j, i <= digits_of_b ->
    op 12 0 [Some [right_sum_carry i j]; Some [su i j]; None; None; Some [pc i j]]
      = [su (S i) j; sc i j].
  Proof.
    intros i j within. cbn [su]. rewrite T_next. unfold sc.
    destruct (column_adds base base_is_2_or_more (T i) (P i) j) as [sum_digit next_carry].
    assert (0 = P i \/ i < digits_of_b /\ q i <> 0) as kinds.
    { destruct (Nat.eq_dec (P i) 0) as [none | some]; [now left | right]. split.
      - destruct (Nat.lt_ge_cases i digits_of_b) as [| beyond]; trivial.
        apply P_beyond in beyond. lia.
      - intros none. unfold P in some. rewrite none in some. lia. }
    assert (q i = 0 -> P i = 0) as none_of_0 by (unfold P; intros ->; lia).
    assert (q i <> 0 -> a <> 0) as some_a.
    { unfold q. destruct (a =? 0) eqn:none; [easy |]. now apply Nat.eqb_neq in none. }
    destruct j.
    - (* units *)
      cbn [right_sum_carry]. rewrite carry_of_units, Nat.add_0_r in *.
      replace (carry base (T i) (P i) 1) with 0.
      2:{ destruct i; [| symmetry; apply no_carry_before; lia].
          rewrite next_carry. rewrite T_0. unfold Canvas.digit at 1.
          rewrite Nat.div_0_l, Nat.mod_0_l by (cbn; lia). cbn [plus]. symmetry. apply Nat.div_small.
          apply digit_is_less. assumption. }
      rewrite shows_units. destruct i.
      + (* first product *)
        cbn [su]. unfold pc.
        replace (0 <? digits_of_b) with true by (symmetry; now apply Nat.ltb_lt).
        cbn [Nat.ltb Nat.leb Nat.sub Nat.eqb]. rewrite T_0 in *. cbn [plus] in *.
        unfold P in *. rewrite Nat.pow_0_r, Nat.mul_1_r in *. check sum_begins.
        destruct (q 0 =? 0) eqn:none.
        * apply Nat.eqb_eq in none. rewrite C0 by now left. rewrite none. now rewrite Nat.mul_0_r.
        * apply Nat.eqb_neq in none. unfold Canvas.class. rewrite units_stand.
          rewrite C0 by (right; now apply class_in).
          replace (a * q 0 =? 0) with false; trivial. symmetry. apply Nat.eqb_neq.
          specialize (some_a none). nia.
      + cbn [su]. rewrite shows_units. check sum_units.
        assert (pc (S i) 0 = if P (S i) =? 0 then 0 else S special) as ->.
        { unfold pc. change (0 <? S i) with true. cbn iota. destruct kinds as [no_p | [less some]].
          - rewrite <- no_p. cbn [Nat.eqb]. destruct (S i <? digits_of_b) eqn:less; trivial.
            destruct (q (S i) =? 0) eqn:none; trivial. exfalso.
            apply Nat.eqb_neq in none. pose proof (power (S i)). specialize (some_a none).
            assert (P (S i) <> 0) by (unfold P; nia). lia.
          - apply Nat.ltb_lt in less. rewrite less.
            pose proof (power (S i)). specialize (some_a some).
            replace (P (S i) =? 0) with false by (symmetry; apply Nat.eqb_neq; unfold P; nia).
            now replace (q (S i) =? 0) with false by (symmetry; now apply Nat.eqb_neq). }
        rewrite C0.
        * f_equal. destruct (P (S i) =? 0) eqn:none; cbn [Nat.eqb negb].
          { apply Nat.eqb_eq in none. now rewrite none, Nat.add_0_r, andb_false_r. }
          rewrite andb_true_r. apply Nat.eqb_neq in none.
          replace (T (S i) + P (S i) =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
          rewrite sum_digit. destruct (P_before (S i) 0) as [_ [_ ->]]; [lia |].
          rewrite Nat.add_0_r. destruct (T (S i) =? 0) eqn:no_t.
          -- rewrite Nat.eqb_refl. apply Nat.eqb_eq in no_t. rewrite no_t. unfold Canvas.digit.
             now rewrite Nat.div_0_l, !Nat.mod_0_l by (cbn; lia).
          -- rewrite not_special. unfold Canvas.digit. now rewrite Nat.mod_mod by lia.
        * destruct (T (S i) =? 0); [now left | right; now apply class_in].
        * destruct (P (S i) =? 0); cbn; auto.
    - (* on the left of the units *)
      rewrite shows_left. cbn [right_sum_carry]. unfold sc.
      assert (su i (S j) = class (T i) (S j)) as ->.
      { destruct i; [| apply shows_left]. cbn [su]. rewrite T_0, <- shows_left. reflexivity. }
      set (carried := carry base (T i) (P i) (S j)) in *.
      pose proof (carry_is_less base base_is_2_or_more (T i) (P i) (S j)) as carry_less.
      fold carried in carry_less.
      pose proof (column_stands base base_is_2_or_more (T i) (P i) (S j) ltac:(lia)) as stands_sum.
      fold carried in stands_sum.
      assert (In (class (T i) (S j)) (0 :: D)) as in_D by (rewrite <- shows_left; apply shows_in).
      assert (forall n, In (class n (S j)) (0 :: D)) as any_in
          by (intros; rewrite <- shows_left; apply shows_in).
      destruct (Nat.eq_dec (P i) 0) as [none | some].
      + (* nothing is added *)
        assert (carried = 0) as no_carry by now apply no_carry_of_0.
        rewrite no_carry in *. rewrite no_carry_of_0 by assumption.
        assert (pc i (S j) = 0 \/ pc i (S j) = special) as is_zero.
        { unfold pc. destruct (i <? digits_of_b) eqn:less; auto.
          destruct (q i =? 0) eqn:no_q; [destruct (S j <? i), (S j - i =? 0); auto |]. exfalso.
          apply Nat.eqb_neq in no_q. pose proof (power i). specialize (some_a no_q).
          unfold P in none. nia. }
        check sum_of_zeros. rewrite C0; [| assumption | destruct is_zero as [-> | ->]; cbn; auto].
        replace (pc i (S j) =? S special) with false.
        2:{ symmetry. apply Nat.eqb_neq. destruct is_zero as [-> | ->]; unfold special; lia. }
        now rewrite andb_false_r, none, Nat.add_0_r.
      + destruct kinds as [| [less no_zero]]; [lia |]. specialize (some_a no_zero).
        unfold pc. pose proof less as less'. apply Nat.ltb_lt in less'. rewrite less'.
        replace (q i =? 0) with false by (symmetry; now apply Nat.eqb_neq).
        destruct (S j <? i) eqn:is_before.
        * (* zeros on the right of the product *)
          apply Nat.ltb_lt in is_before.
          assert (carried = 0) as no_carry by (apply no_carry_before; lia).
          rewrite no_carry in *. rewrite no_carry_before by lia.
          check sum_of_zeros. rewrite C0; [| assumption | cbn; auto].
          rewrite Nat.eqb_refl, andb_true_r.
          f_equal. unfold Canvas.class. rewrite sum_digit, stands_sum.
          destruct (P_before i (S j)) as [_ [_ ->]]; trivial. rewrite !Nat.add_0_r.
          assert (stands (P i) (S j) = true) as ->.
          { apply stands_iff; [lia |]. pose proof (P_at_least i some_a no_zero).
            assert (base ^ S j <= base ^ i) by (apply Nat.pow_le_mono_r; lia). lia. }
          rewrite orb_true_r. cbn [orb].
          destruct (stands (T i) (S j)) eqn:t_stands; cbn [Nat.eqb].
          -- unfold Canvas.digit. now rewrite Nat.mod_mod by lia.
          -- apply stands_not in t_stands as [_ t_less]. rewrite digit_zero by assumption.
             now rewrite Nat.mod_0_l by lia.
        * (* a digit of the product, or what is left of it *)
          apply Nat.ltb_ge in is_before. rewrite <- P_class by (trivial; lia).
          unfold Canvas.class at 2. destruct (stands (P i) (S j)) eqn:p_stands.
          -- check sum_later. rewrite C0; [| assumption | now apply class_in | ].
             2:{ assert (carried = 0 \/ carried = 1) as [-> | ->] by lia; cbn; auto. }
             rewrite class_digit by assumption. cbn [pred].
             rewrite <- sum_digit, <- next_carry. f_equal. unfold Canvas.class. rewrite stands_sum.
             now rewrite orb_true_r.
          -- apply stands_not in p_stands as [_ p_less].
             assert (T i < base ^ S j) as t_less.
             { apply Nat.le_lt_trans with (P i); [now apply T_at_most | assumption]. }
             assert (stands (T i) (S j) = false) as t_ends.
             { destruct (stands (T i) (S j)) eqn:t_stands; trivial.
             apply stands_iff in t_stands; lia. }
             unfold Canvas.class at 1 2. rewrite stands_sum, t_ends, sum_digit, next_carry.
             rewrite !digit_zero by assumption. cbn [orb plus].
             assert (carried = 0 \/ carried = 1) as [-> | ->] by lia.
             ++ check sum_of_zeros. rewrite (C0 0); [| now left | cbn; auto].
                cbn [Nat.eqb andb]. now rewrite Nat.div_small by lia.
             ++ check sum_ends. rewrite C0. cbn [Nat.eqb].
                now rewrite Nat.mod_small, Nat.div_small by lia.
  Qed.

  Lemma su_in : forall i j, In (su i j) (0 :: special :: D).
  Proof.
    intros [| i] j; [now left |]. cbn [su]. destruct j.
    - rewrite shows_units.
    destruct (T (S i) =? 0); [right; now left | do 2 right; now apply class_in].
    - destruct (shows_in (T (S i)) j) as [<- | ]; [now left | do 2 right; assumption].
  Qed.
  Lemma class_range : forall n, In n (0 :: special :: D) -> In n (seq 0 (S special)).
  Proof.
    intros n [<- | [<- | there_is]]; apply in_seq; unfold special; try lia.
    apply in_seq in there_is. lia.
  Qed.
  Lemma z_in : forall j, In (z j) [0; 1].
  Proof. intros. unfold z. destruct ((j =? 0) && (a =? 0)); cbn; auto. Qed.

  Lemma arriving_op : forall i j,
    op 3 0 [None; Some [get (Some (up i j)) 2]; Some [get (after (up i) j) 5]; None; Some [3; 0]]
      = [C (i + j)].
  Proof.
    intros [| i] j.
    - replace (get (after (up 0) j) 5) with 0 by (unfold after; now destruct (S j <? width)).
      check arriving_straight. apply C0, C_in.
    - replace (get (after (up (S i)) j) 5) with (C (S i + j)).
      { check arriving_moved. apply C0, C_in. }
      unfold after. destruct (S j <? width) eqn:inside.
      + cbn. f_equal. lia.
      + apply Nat.ltb_ge in inside. apply C_beyond. lia.
  Qed.

  Lemma zero_op : forall i j,
    op 4 0 [None; Some [get (Some (up i j)) 1; get (Some (up i j)) 3];
            Some [get (after (up i) j) 5]; None; Some [3]] = [z j].
  Proof.
    intros [| i] j.
    - replace (get (after (up 0) j) 5) with 0 by (unfold after; now destruct (S j <? width)).
      cbn [up get down_b nth]. check zero_first. apply C0; [apply A_in |].
      unfold z. destruct (j =? 0) eqn:at_0, (a =? 0) eqn:none; cbn [andb];
        try (destruct (A j =? 1); cbn; now auto).
      apply Nat.eqb_eq in at_0, none. subst j. unfold A. rewrite units_stand.
      replace (digit a 0) with 0; [cbn; auto |]. rewrite none. unfold Canvas.digit.
      now rewrite Nat.div_0_l, Nat.mod_0_l by (cbn; lia).
    - assert (In (get (after (up (S i)) j) 5) (0 :: D)) as moved.
      { unfold after. destruct (S j <? width); [apply C_in | now left]. }
      check zero_later. apply (C0 _ moved), z_in.
  Qed.

  Lemma multiplicand_op : forall i j,
    op 5 0 [None; Some [get (Some (up i j)) 1]; None; Some [get (before (up i) j) 6]; None]
      = [M i j].
  Proof.
    intros [| i] j.
    - replace (get (before (up 0) j) 6) with 0 by now destruct j.
      cbn [up get down_b nth]. unfold M. cbn [Nat.ltb Nat.leb]. rewrite Nat.sub_0_r.
      check multiplicand_straight. apply C0. right. apply A_in.
    - replace (get (before (up (S i)) j) 6) with (M (S i) j) by now destruct j.
      check multiplicand_moved. apply C0, M_in.
  Qed.

  Definition right_m (i j : nat) := match j with 0 => 0 | S _ => m i end.

  Lemma diagonal_op : forall i j, i <= digits_of_b ->
    op 9 0 [Some [right_m i j]; None; None; None; Some [3; C (i + j)]] = [diagonal_p i j].
  Proof.
    intros i [| j] within; cbn [right_m].
    - check diagonal_first. apply C0, C_in.
    - change (diagonal_p i (S j)) with (C (i + S j)).
      destruct (Nat.eq_dec i digits_of_b) as [-> | ].
      + rewrite m_total, C_beyond by lia. check diagonal_total. apply C0.
      + rewrite m_of by lia. check diagonal_later. apply C0; [apply C_in | apply q_in].
  Qed.

  Lemma multiplier_op : forall i j, i <= digits_of_b ->
    op 10 0 [Some [right_m i j]; Some [z j]; None; None; Some [3; C (i + j); Nat.min 1 (su i j)]]
      = [m i].
  Proof.
    intros i j within.
    assert (In (Nat.min 1 (su i j)) [0; 1]) as in_adds by (destruct (su i j); cbn; auto).
    destruct j; cbn [right_m].
    - rewrite Nat.add_0_r. destruct (Nat.eq_dec i digits_of_b) as [-> | ].
      + rewrite m_total, C_beyond by lia.
        replace (Nat.min 1 (su digits_of_b 0)) with 1.
        { check total_begins. apply C0, z_in. }
        destruct digits_of_b; [lia |]. cbn [su]. rewrite shows_units.
        now destruct (T (S n) =? 0).
      + rewrite m_of, C_within by lia. check multiplier_begins.
        rewrite C0; [| apply in_seq; pose proof (digit_is_less base base_is_2_or_more b i); lia
                     | apply z_in | assumption].
        unfold z, q. cbn [Nat.eqb andb]. now destruct (a =? 0).
    - change (z (S j)) with 0. destruct (Nat.eq_dec i digits_of_b) as [-> | ].
      + rewrite m_total, C_beyond by lia. check total_goes. now apply C0.
      + rewrite m_of by lia. check multiplier_goes. apply C0; trivial; [apply q_in | apply C_in].
  Qed.

  Lemma symbol_of_digit : forall d, symbol_of (id_of (Digit d)) = Digit d.
  Proof. intros d. do 10 (destruct d; [reflexivity |]). reflexivity. Qed.

  Lemma symbol_op : forall i j, i <= digits_of_b ->
    symbol_of (nth 0 (op 14 0 (own [pc i j; nth 0 (op 13 0 (own [m i])) 0;
        su (S i) j])) 0) = shown i j.
  Proof.
    intros i j within. pose proof (su_in (S i) j) as in_su.
    destruct (Nat.eq_dec i digits_of_b) as [-> | ].
    - (* the row of the sum *)
      rewrite m_total. check is_total. rewrite C0 by now left. cbn [nth]. rewrite Nat.eqb_refl.
      unfold pc, shown. rewrite Nat.ltb_irrefl. clear C0. check shows_total.
      rewrite C0 by assumption.
      cbn [nth su]. rewrite T_all. unfold written. destruct j.
      + rewrite shows_units, units_stand. destruct (a * b =? 0) eqn:none.
        * rewrite Nat.eqb_refl. apply Nat.eqb_eq in none. rewrite none. cbn [Nat.eqb special].
          unfold Canvas.digit. rewrite Nat.div_0_l, Nat.mod_0_l by (cbn; lia). reflexivity.
        * rewrite not_special. cbn [Nat.eqb pred]. apply symbol_of_digit.
      + rewrite shows_left. unfold Canvas.class. destruct (stands (a * b) (S j)); [| reflexivity].
        rewrite not_special. cbn [Nat.eqb pred]. apply symbol_of_digit.
    - (* a product *)
      assert (i < digits_of_b) as less by lia.
      rewrite m_of by assumption. check is_total. rewrite C0 by (right; apply q_in). cbn [nth].
      replace (S (q i) =? special) with false.
      2:{ symmetry. apply Nat.eqb_neq. unfold special. pose proof (q_is_less i). lia. }
      clear C0. unfold pc, shown. pose proof less as less'. apply Nat.ltb_lt in less'.
      rewrite less'.
      rewrite <- a_q.
      assert (q i <> 0 -> P i <> 0) as some_p.
      { intros no_zero none. unfold P in none. pose proof (power i). pose proof (q_0 i).
        assert (a * q i = 0 \/ base ^ i = 0) as [] by (apply Nat.mul_eq_0; assumption); lia. }
      destruct (j <? i) eqn:is_before.
      + destruct (q i =? 0) eqn:none.
        * check shows_blank. now rewrite C0 by assumption.
        * apply Nat.eqb_neq in none. specialize (some_p none). apply Nat.ltb_lt in is_before.
          check shows_no_zero. rewrite C0; [reflexivity |]. cbn [su]. unfold shows.
          rewrite T_next. replace (T i + P i =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
          apply class_is_in. destruct j; [reflexivity |]. apply stands_iff; [lia |].
          assert (a <> 0) as some_a by now apply (some_factor i).
          pose proof (P_at_least i some_a none).
          assert (base ^ S j <= base ^ i) by (apply Nat.pow_le_mono_r; lia). lia.
      + apply Nat.ltb_ge in is_before. destruct (q i =? 0) eqn:none.
        * apply Nat.eqb_eq in none. rewrite none, Nat.mul_0_r. unfold written.
          destruct (j - i =? 0) eqn:first_column.
          -- apply Nat.eqb_eq in first_column. rewrite first_column, units_stand.
             check shows_zero. rewrite C0 by assumption. cbn [nth]. rewrite symbol_of_digit.
             unfold Canvas.digit. now rewrite Nat.div_0_l, Nat.mod_0_l by (cbn; lia).
          -- check shows_blank. rewrite C0 by assumption. apply Nat.eqb_neq in first_column.
             destruct (stands 0 (j - i)) eqn:at_k; [| reflexivity].
             apply stands_iff in at_k; [| lia]. pose proof (power (j - i)). lia.
        * apply Nat.eqb_neq in none. specialize (some_p none).
          assert (a <> 0) as some_a by now apply (some_factor i).
          unfold written, Canvas.class.
          destruct (stands (a * q i) (j - i)) eqn:at_k.
          -- check shows_digit.
          rewrite C0; [cbn [nth pred]; apply symbol_of_digit | now apply class_in |].
             cbn [su]. unfold shows. rewrite T_next.
             replace (T i + P i =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
             apply class_is_in. destruct (Nat.eq_dec j 0) as [-> | ]; [reflexivity |].
             pose proof (P_class i j some_a none is_before ltac:(lia)) as same_class.
             unfold Canvas.class in same_class. rewrite at_k in same_class.
             destruct (stands (P i) j) eqn:p_stands; [| discriminate].
             apply stands_iff; [lia |]. apply stands_iff in p_stands; lia.
          -- check shows_blank. now rewrite C0 by assumption.
  Qed.

  Lemma row_p : forall i j, i <= digits_of_b ->
    decides Asked (before (left_p i) j) (Some (up i j)) (after (up i) j) (before (up i) j)
      (shown i j) (left_p i j) (down_p i j).
  Proof.
    intros i j within. unfold decides, standard_cell.
    replace (get (before (left_p i) j) 0) with (right_m i j) by now destruct j.
    replace (get (before (left_p i) j) 1) with (right_carry i j) by now destruct j.
    replace (get (before (left_p i) j) 2) with (right_sum_carry i j) by now destruct j.
    replace (get (Some (up i j)) 4) with (su i j) by now destruct i.
    pose proof (su_in i j) as in_su. pose proof (M_in i j) as in_M.
    pose proof (C_in (i + j)) as in_C.
    check on_adds. rewrite C0 by now apply class_range. clear C0.
    assert (op 1 0 [None; Some [there (Some (up i j)); get (Some (up i j)) 0]; None; None;
        None] = [3]) as ->.
    { check on_row. destruct i; [apply (C0 2) | apply (C0 3)]; apply in_seq; lia. }
    cbn [nth].
    assert (op 2 (id_of Asked) [Some [right_m i j]; None; None; None; Some [3]] = [0]) as ->.
    { check on_asked. apply C0. destruct j; cbn [right_m]; [now apply class_range; left |].
      apply class_range. destruct (Nat.eq_dec i digits_of_b) as [-> | ].
      - rewrite m_total. right. now left.
      - rewrite m_of by lia. do 2 right. apply q_in. }
    cbn [nth]. rewrite arriving_op, zero_op, multiplicand_op. cbn [nth].
    replace (get (Some (up i j)) 3) with (z j) by now destruct i.
    check goes_down_no_more. rewrite C0 by assumption. clear C0.
    check passes. rewrite C0 by assumption. clear C0.
    check column_later. rewrite C0 by assumption. clear C0.
    rewrite diagonal_op, multiplier_op by assumption. cbn [nth].
    rewrite product_op by assumption. cbn [nth]. rewrite sum_op by assumption. cbn [nth].
    repeat split. intros _. now apply symbol_op.
  Qed.

  (* Rows. *)
  Lemma fills_first : forall given shown l d,
    (forall j, decides (given j) (before l j) None None None (shown j) (l j) (d j)) ->
    forall count j, fill_row standard_cell (before l j) None [] (map given (seq j count)) =
      map (fun j => (filled (given j) (shown j), l j, d j)) (seq j count).
  Proof.
    intros given shown l d each_cell. induction count; intros j; trivial.
    cbn [seq map fill_row hd_error tl]. specialize (each_cell j). unfold decides in each_cell.
    destruct (standard_cell _ _ _ _ _) as [[decided to_left] to_below].
    destruct each_cell as [writes [-> ->]]. pose proof (IHcount (S j)) as rest.
    cbn [before] in rest. rewrite rest. f_equal.
    unfold filled. destruct (given j); auto. now rewrite writes.
  Qed.

  Lemma fills_below : forall f given shown l d,
    (forall j, decides (given j) (before l j) (Some (f j)) (after f j) (before f j)
      (shown j) (l j) (d j)) ->
    forall count j, j + count = width ->
      fill_row standard_cell (before l j) (before f j) (map f (seq j count)) (map given
          (seq j count))
        = map (fun j => (filled (given j) (shown j), l j, d j)) (seq j count).
  Proof.
    intros f given shown l d each_cell. induction count; intros j ends; trivial.
    cbn [seq map fill_row hd_error tl].
    replace (hd_error (map f (seq (S j) count))) with (after f j).
    2:{ unfold after. destruct count; cbn [seq map hd_error].
        - now replace (S j <? width) with false by (symmetry; apply Nat.ltb_ge; lia).
        - now replace (S j <? width) with true by (symmetry; apply Nat.ltb_lt; lia). }
    specialize (each_cell j). unfold decides in each_cell.
    destruct (standard_cell _ _ _ _ _) as [[decided to_left] to_below].
    destruct each_cell as [writes [-> ->]]. pose proof (IHcount (S j) ltac:(lia)) as rest.
    cbn [before] in rest. rewrite rest. f_equal.
    unfold filled. destruct (given j); auto. now rewrite writes.
  Qed.

  Lemma asked_row : repeat Asked width = map (fun _ => Asked) (seq 0 width).
  Proof. generalize 0. clear. induction width; intros; cbn; [easy | now rewrite <- IHn]. Qed.

  Lemma product_rows : forall count i, i + count = digits_of_b ->
    fill_below standard_cell (map (up i) (seq 0 width)) (repeat (repeat Asked width) (S count)) =
      map (partial_product base width a b) (seq i count) ++ [row base width (a * b)].
  Proof.
    rewrite asked_row. induction count; intros i ends; cbn [repeat fill_below].
    - rewrite Nat.add_0_r in ends. subst i.
      pose proof (fills_below (up digits_of_b) (fun _ => Asked) (shown digits_of_b)
        (left_p digits_of_b) (down_p digits_of_b) (fun j => row_p _ j
            (le_n _)) width 0 eq_refl) as fills.
      cbn [before] in fills. rewrite fills, map_map. cbn [fst filled seq map app]. f_equal.
      unfold row. apply map_ext. intros j. unfold shown. now rewrite Nat.ltb_irrefl.
    - pose proof (fills_below (up i) (fun _ => Asked) (shown i) (left_p i) (down_p i)
        (fun j => row_p i j ltac:(lia)) width 0 eq_refl) as fills.
      cbn [before] in fills. rewrite fills, !map_map. cbn [fst snd filled seq map app].
      change (map (fun x => down_p i x) (seq 0 width)) with (map (up (S i)) (seq 0 width)).
      specialize (IHcount (S i) ltac:(lia)). cbn [repeat fill_below] in IHcount. rewrite IHcount.
      f_equal. unfold partial_product. apply map_ext. intros j. unfold shown.
      now replace (i <? digits_of_b) with true by (symmetry; apply Nat.ltb_lt; lia).
  Qed.

  Theorem products_are_correct :
    fill standard_cell (product_canvas base width a b digits_of_b sign) =
      solved_product base width a b digits_of_b sign.
  Proof.
    unfold fill, product_canvas, solved_product. cbn [app fill_below].
    pose proof (fills_first (written base a) (fun _ => Blank) left_a down_a row_a width 0) as first.
    cbn [before] in first. unfold row at 1 2 3. rewrite first, !map_map. cbn [fst snd].
    pose proof (fills_below down_a given_b
        (fun _ => Blank) left_a down_b row_b width 0 eq_refl) as second.
    cbn [before] in second. unfold multiplier_row.
    change (fun i => if i =? sign then Times else written base b i) with given_b.
    change (map (fun x => down_a x) (seq 0 width)) with (map down_a (seq 0 width)).
    rewrite second, !map_map. cbn [fst snd].
    change (map (fun x => down_b x) (seq 0 width)) with (map (up 0) (seq 0 width)).
    rewrite product_rows by lia. f_equal; [| f_equal].
    - apply map_ext. intros j. unfold filled, written. now destruct (stands a j).
    - apply map_ext. intros j. unfold filled, given_b, written.
      now destruct (j =? sign), (stands b j).
  Qed.
End Standard.

(* The number of digits of n, of which the first is not 0; of 0 it is 1. *)
Definition has_digits (base n digits : nat) :=
  0 < digits /\ n < base ^ digits /\ (digits = 1 \/ base ^ (digits - 1) <= n).

Theorem products_are_shown : forall base op, 2 <= base -> multiplies_in_every_op base op = true ->
  forall width a b digits_of_b sign,
  has_digits base b digits_of_b -> digits_of_b <= sign < width -> a * b < base ^ width ->
  let filled := fill (standard_cell op) (product_canvas base width a b digits_of_b sign) in
  filled = solved_product base width a b digits_of_b sign
  /\ value base (List.last filled []) = a * b.
Proof.
  intros base op enough agrees width a b digits_of_b sign [some [less first]] sign_is_left fits.
  assert (base ^ digits_of_b <= base ^ sign) by (apply Nat.pow_le_mono_r; lia).
  cbn zeta. rewrite products_are_correct; trivial; try lia.
  - split; trivial. unfold solved_product. rewrite app_assoc, last_last. now apply row_shows.
  - destruct first as [-> | at_least]; [reflexivity |]. unfold stands.
    destruct (digits_of_b - 1 =? 0); [reflexivity |]. now apply Nat.leb_le.
Qed.

(* 47 * 36:  __47
             *_36
             ....             _282
             ....             141_
             ....   becomes   1692 *)
Example a_product : product_canvas 10 4 47 36 2 3 =
  [[Digit 7; Digit 4; Blank; Blank]; [Digit 6; Digit 3; Blank; Times];
   [Asked; Asked; Asked; Asked]; [Asked; Asked; Asked; Asked]; [Asked; Asked; Asked; Asked]].
Proof. reflexivity. Qed.
Example a_solved_product : solved_product 10 4 47 36 2 3 =
  [[Digit 7; Digit 4; Blank; Blank]; [Digit 6; Digit 3; Blank; Times];
   [Digit 2; Digit 8; Digit 2; Blank]; [Blank; Digit 1; Digit 4; Digit 1];
   [Digit 2; Digit 9; Digit 6; Digit 1]].
Proof. vm_compute. reflexivity. Qed.
End Products.

(* ---- 4. The network ---- *)

(* All numbers are whole numbers of 63 bits with a sign; no result comes near their limits. States
   have 10 bits after the binary point, weights and inputs of matrices are small. *)
Module Network.
Import PrimInt63 Sint63.
Local Open Scope sint63_scope.

Definition vector := list int.
Definition fraction : Type := int * int.
Definition weights : Type := list (int * int * vector).

Definition scaled (f : fraction) (x : int) : int :=
  let (multiplier, shift) := f in (x * multiplier + (1 << (shift - 1))) >> shift.
Definition clamped (most x : int) : int :=
  if x <? - most then - most else if most <? x then most else x.
Definition state := clamped 1048576.
Definition small := clamped 127.
Definition floor (x y : int) : int := let q := x / y in if x <? q * y then q - 1 else q.
Definition divided (x y : int) : int := floor (2 * x + y) (2 * y).

Fixpoint dot (x y : vector) (total : int) : int :=
  match x, y with
  | a :: x, b :: y => dot x y (total + a * b)
  | _, _ => total
  end.
Fixpoint added (x y : vector) : vector :=
  match x, y with
  | a :: x, b :: y => (a + b) :: added x y
  | _, _ => []
  end.
Definition product (rows : weights) (x : vector) : vector :=
  map (fun '(multiplier, shift, row) => scaled (multiplier, shift) (dot row x 0)) rows.
Definition embeddings (rows : weights) : list vector :=
  map (fun '(multiplier, shift, row) => map (scaled (multiplier, shift)) row) rows.

Fixpoint root_bits (bits : nat) (bit found x : int) : int :=
  match bits with
  | O => found
  | S bits =>
      let more := found + bit in
      root_bits bits (bit >> 1) (if x <? more * more then found else more) x
  end.
Definition root : int -> int := root_bits 31 (1 << 30) 0.

Fixpoint size (x : vector) : int := match x with [] => 0 | _ :: x => 1 + size x end.
Definition normed (x : vector) : vector :=
  let x := map state x in
  let length := root ((dot x x 0 + 10 * size x) << 8) in
  let factor := root (size x << 28) in
  map (fun a => divided (a * factor) length) x.

Fixpoint entry {A} (default : A) (list : list A) (i : int) : A :=
  match list with
  | [] => default
  | one :: list => if i =? 0 then one else entry default list (i - 1)
  end.
Fixpoint parts {A} (count length : nat) (x : list A) : list (list A) :=
  match count with
  | O => []
  | S count => firstn length x :: parts count length (skipn length x)
  end.
Definition look_up (table : list vector) (i : int) : int :=
  entry 0 (entry [] table (i >> 4)) (i land 15).

Definition parts_of {A} (length : nat) (x : list A) : list (list A) :=
  parts (List.length x / length)%nat length x.
(* Weights of a block. *)
Record block := Block {
  heads : nat;  (* of attention *)
  to_query : fraction; query : weights; key_value : weights;
  direction : list vector;  (* added to the scores: for each direction, by head *)
  octaves : fraction; out : weights;
  to_mlp : fraction; gate_up : weights; silu : vector;
  to_hidden : fraction; down : weights }.

(* Bias, key and value of a message, by head. *)
Definition heard : Type := list (int * vector * vector).

Definition half_powers : list vector :=
    parts 16 16 ([32768; 32679; 32591; 32503; 32415; 32327; 32240; 32153; 32066; 31979; 31893; 31806; 31720; 31635; 31549; 31464; 31379; 31294; 31209; 31125; 31041; 30957; 30873; 30790; 30706; 30623; 30541; 30458; 30376; 30293; 30212; 30130; 30048; 29967; 29886; 29805; 29725; 29644; 29564; 29484; 29405; 29325; 29246; 29167; 29088; 29009; 28931; 28852; 28774; 28697; 28619; 28542; 28464; 28388; 28311; 28234; 28158; 28082; 28006; 27930; 27855; 27779; 27704; 27629; 27554; 27480; 27406; 27332; 27258; 27184; 27110; 27037; 26964; 26891; 26818; 26746; 26674; 26601; 26530; 26458; 26386; 26315; 26244; 26173; 26102; 26031; 25961; 25891; 25821; 25751; 25681; 25612; 25543; 25474; 25405; 25336; 25268; 25199; 25131; 25063; 24995; 24928; 24860; 24793; 24726; 24659; 24593; 24526; 24460; 24394; 24328; 24262; 24196; 24131; 24066; 24001; 23936; 23871; 23806; 23742; 23678; 23614; 23550; 23486; 23423; 23359; 23296; 23233; 23170; 23108; 23045; 22983; 22921; 22859; 22797; 22735; 22674; 22613; 22552; 22491; 22430; 22369; 22309; 22248; 22188; 22128; 22068; 22009; 21949; 21890; 21831; 21772; 21713; 21654; 21595; 21537; 21479; 21421; 21363; 21305; 21247; 21190; 21133; 21076; 21019; 20962; 20905; 20849; 20792; 20736; 20680; 20624; 20568; 20513; 20457; 20402; 20347; 20292; 20237; 20182; 20127; 20073; 20019; 19965; 19911; 19857; 19803; 19750; 19696; 19643; 19590; 19537; 19484; 19431; 19379; 19326; 19274; 19222; 19170; 19118; 19066; 19015; 18963; 18912; 18861; 18810; 18759; 18708; 18658; 18607; 18557; 18507; 18457; 18407; 18357; 18308; 18258; 18209; 18160; 18110; 18061; 18013; 17964; 17915; 17867; 17819; 17770; 17722; 17674; 17627; 17579; 17531; 17484; 17437; 17390; 17343; 17296; 17249; 17202; 17156; 17109; 17063; 17017; 16971; 16925; 16879; 16834; 16788; 16743; 16697; 16652; 16607; 16562; 16518; 16473; 16428]).
Definition power (x : int) : int :=
  look_up half_powers (x land 255) >> (let octave := x >> 8 in if octave <? 31 then octave else 31).

Definition mixed (b : block) (q : vector) (messages : heard) : vector :=
  let scores := map (fun '(bias, key, _) => dot q key 0 + bias) messages in
  let most := fold_left (fun x y => if x <? y then y else x) scores (-536870912) in
  let shares := map (fun x => power (scaled (octaves b) (state (most - x)))) scores in
  let total := fold_left (fun x y => x + y) shares 0 in
  let sums :=
      fold_left (fun sums '(share, (_, _, value)) => added sums (map (fun x => share * x) value))
    (combine shares messages) (map (fun _ => 0) q) in
  map (fun x => divided x (if total <? 1 then 1 else total)) sums.

Fixpoint attend (b : block) (queries : list vector) (messages : list heard) : vector :=
  match queries with
  | [] => []
  | q :: queries => mixed b q (map (hd (0, [], [])) messages) ++ attend b queries (map
      (@tl _) messages)
  end.

Definition head_size (b : block) : nat := (List.length (query b) / heads b)%nat.
Definition hear (b : block) (of : nat) (message : vector) : heard :=
  let '(keys, values) :=
    let both := parts_of (head_size b) (map small (product (key_value b) message)) in
    (firstn (heads b) both, skipn (heads b) both) in
  combine (combine (nth of (direction b) []) keys) values.

Definition apply_block (b : block) (silus : list vector) (x : vector)
    (messages : list heard) : vector :=
  let x := map state x in
  let q := map small (product (query b) (map (fun a => small (scaled (to_query b) a)) x)) in
  let x := normed (added x (product (out b) (attend b (parts_of (head_size b) q) messages))) in
  let both := map small (product (gate_up b) (map (fun a => small (scaled (to_mlp b) a)) x)) in
  let inner := (List.length both / 2)%nat in
  let gated :=
      map (fun '(gate, up) => small (scaled (to_hidden b) (look_up silus (gate + 127) * up)))
    (combine (firstn inner both) (skipn inner both)) in
  normed (added x (product (down b) gated)).

(* What an op reads from a direction: whether there is a neighbour, and signals by index. *)
Record reads := Reads { presence : bool; signals : list nat }.
Record op := Op { given : bool; of : list reads; outputs : list nat }.

Record network := Network {
  blocks : list block;
  H_cycles : nat; L_cycles : nat; H_init : vector; L_init : vector;
  tokens : weights; classes : list weights; present : weights; ops : weights;
  to_message : fraction; to_head : fraction;
  head : list (list (int * int * vector * int));  (* by output: fraction, weights, bias *)
  all_ops : list op }.

Inductive tree := Message (by_block : list heard) | Classes (next : list tree).
Fixpoint tree_of (message : vector -> list heard) (signals : list (list vector))
    (sum : vector) : tree :=
  match signals with
  | [] => Message (message sum)
  | classes :: signals => Classes (map (fun one => tree_of message signals (added sum one)) classes)
  end.
Fixpoint find (t : tree) (classes : list nat) : list heard :=
  match t, classes with
  | Message found, _ => found
  | Classes next, class :: classes => find (nth class next (Message [])) classes
  | Classes _, [] => []
  end.

(* An op with all that does not depend on its inputs. *)
Record ready := Ready {
  takes_given : bool; start : vector; hears : list tree;
  writes : list (list (int * int * vector * int)) }.

Definition zeros (n : network) : vector := map (fun _ => 0) (H_init n).
Definition hears_of (n : network) (direction : nat) (r : reads) : tree :=
  let embedded := map embeddings (if presence r then [present n] else []) in
  let signals := map (fun signal => embeddings (nth signal (classes n) [])) (signals r) in
  let message sum :=
    let message := map (fun a => small (scaled (to_message n) (state a))) sum in
    map (fun b => hear b direction message) (blocks n) in
  tree_of message (embedded ++ signals) (zeros n).
Definition numbered {A} (l : list A) : list (nat * A) := combine (seq 0 (List.length l)) l.
Definition prepared (n : network) : list ready :=
  let names := embeddings (ops n) in
  map (fun '(i, o) => Ready (given o) (nth i names (zeros n))
      (map (fun '(direction, r) => hears_of n direction r) (numbered (of o)))
      (map (fun output => nth output (head n) []) (outputs o)))
    (numbered (all_ops n)).

Fixpoint apply_blocks (blocks : list (block * list vector)) (messages : list (list heard))
    (x : vector) :=
  match blocks with
  | [] => x
  | (b, silus) :: blocks =>
      apply_blocks blocks (map (@tl _) messages) (apply_block b silus x (map (hd []) messages))
  end.
Definition recur (n : network) (blocks : list (block * list vector)) (messages : list (list heard))
    (x : vector) : vector :=
  let update := apply_blocks blocks messages in
  fst (Nat.iter (H_cycles n) (fun '(z_H, z_L) =>
      let z_L := Nat.iter (L_cycles n) (fun z_L => update (added z_L (added z_H x))) z_L in
      (update (added z_H z_L), z_L))
    (H_init n, L_init n)).

Fixpoint largest (logits : vector) (i best : nat) (most : int) : nat :=
  match logits with
  | [] => best
  | x :: logits => if most <? x then largest logits (S i) i x else largest logits (S i) best most
  end.
Definition decided (rows : list (int * int * vector * int)) (x : vector) : nat :=
  largest (map (fun '(multiplier, shift, row, bias) =>
    clamped 16777215 (scaled (multiplier, shift) (dot row x 0) + bias)) rows) 0 0 (-16777216).

Record network_ready := NetworkReady {
  net : network; token_vectors : list vector; silus : list (block * list vector);
      ready_ops : list ready }.
Definition prepare (n : network) : network_ready :=
  NetworkReady n (embeddings (tokens n)) (map (fun b => (b, parts 16 16 (silu b))) (blocks n))
      (prepared n).

(* The outputs of an op, from a symbol and from what it reads in each direction. *)
Definition decide (r : network_ready) (i symbol : nat) (messages : list
    (option message)) : message :=
  let n := net r in
  let o := nth i (ready_ops r) (Ready false [] [] []) in
  let x :=
      added (if takes_given o then nth symbol (token_vectors r) (zeros n) else zeros n) (start o) in
  let found := flat_map (fun '(t, m) => match m with Some m => [find t m] | None => [] end)
    (combine (hears o) messages) in
  let z := map (fun a => small (scaled (to_head n) a)) (recur n (silus r) found x) in
  map (fun rows => decided rows z) (writes o).

(* A network of sums as a cell. *)
Definition adder (r : network_ready) (given : symbol) (beside above : option message)
    : symbol * message * message :=
  match decide r 0%nat (id_of given) [beside; above] with
  | decided :: carry :: below => (symbol_of decided, [carry], below)
  | _ => (Blank, [], [])
  end.
End Network.
