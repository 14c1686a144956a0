(* Networks that add: definitions and the theorem, for any base, width and number of addends.

   1. canvases, and a cell that fills them; numbers as rows of digits
   2. sums: what a cell has to do, the inputs that it can have, and the theorem: a cell that does so
      for each of them fills every canvas with the correct sum
   3. the network: its arithmetic in whole numbers, as in trm/cells/integer.py

   The weights of one network, and the theorem about it, follow at the end of the file.
   A row is a list of symbols from the right to the left, so that the digit of column i of a number
   is the one of base ^ i. A canvas is a list of rows from the top. *)

From Coq Require Import List Arith Lia Bool.
From Coq Require PrimInt63 Sint63.
Import ListNotations.
Local Open Scope nat_scope.

(* ---- 1. Canvases ---- *)

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
      destruct (column =? 0) eqn:?, (base ^ column <=? n) eqn:beyond; cbn [orb]; rewrite rest; try exact H.
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

  Definition sum_rule (given : symbol) (right above : option message) : symbol * message * message :=
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

  (* The inputs that a cell can have: in the first row; in the margin; in the units; on their left. *)
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

  Lemma class_so_far_digit : forall n column, pred (class_so_far n column) = digit (so_far n) column.
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
        repeat (Blank, [0], [0; 0]) margin ++ fill_row (beside_and_above cell) from_right' above_right' above row.
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
    cbn [fill_row hd_error tl map]. unfold beside_and_above at 1. inversion_clear listed as [| ? ? one rest].
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

  Lemma filled_written : forall n decided column, filled (written n column) decided = written n column.
  Proof. intros. unfold written. now destruct (stands n column). Qed.

  Theorem rows_add : forall width margin sign last numbers n t,
    0 < sign -> last < base ^ sign ->
    fill_below (beside_and_above cell) (passed_down width margin n t) (sum_canvas width margin sign numbers last) =
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
      + replace (repeat [0; 0] margin ++ _) with (passed_down width margin last (Some (n + so_far t))).
        2:{ unfold passed_down. f_equal. apply map_ext. intros i. cbn [class_so_far].
            destruct (i =? sign) eqn:at_sign; [| now rewrite class_of_written].
            apply Nat.eqb_eq in at_sign. subst. unfold class at 1. unfold stands at 1.
            replace (sign =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [orb].
            now replace (base ^ sign <=? last) with false by (symmetry; now apply Nat.leb_gt). }
        replace (repeat Asked (margin + width))
          with (repeat Asked margin ++ map (fun _ => Asked) (seq 0 width)).
        2:{ rewrite repeat_app. f_equal. clear. generalize 0. induction width; intros; cbn; [easy |].
            now rewrite IHwidth. }
        rewrite below_a_row; [| auto |].
        2:{ intros i. unfold given_in_column. destruct (i =? 0); cbn; auto. }
        cbn [fill_below filled]. do 2 f_equal. unfold addend_row, row. f_equal.
        apply map_ext. intros i. f_equal. cbn. lia.
    - unfold addend_row at 1, row. rewrite below_a_row; [| auto | intros; apply written_is_given].
      f_equal.
      + unfold addend_row, row. f_equal. apply map_ext. intros. apply filled_written.
      + replace (repeat [0; 0] margin ++ _) with (passed_down width margin next (Some (n + so_far t))).
        2:{ unfold passed_down. f_equal. apply map_ext. intros. now rewrite class_of_written. }
        rewrite IHnumbers by assumption. cbn [so_far].
        change (list_sum (next :: numbers)) with (next + list_sum numbers).
        now replace (n + so_far t + (next + list_sum numbers)) with (next + (n + so_far t) + list_sum numbers) by lia.
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
      + apply in_map_iff in there as [i [<- _]]. unfold written. destruct (stands first i); cbn; auto.
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
Example a_solved_sum : List.last (solved_sum 10 4 0 3 [47] 36) [] = [Digit 3; Digit 8; Blank; Blank].
Proof. reflexivity. Qed.

(* ---- 3. The network ---- *)

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
Definition pick {A} (default : A) (indices : list nat) (x : list A) : list A :=
  map (fun i => nth i x default) indices.

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

Definition half_powers : list vector := parts 16 16 ([32768; 32679; 32591; 32503; 32415; 32327; 32240; 32153; 32066; 31979; 31893; 31806; 31720; 31635; 31549; 31464; 31379; 31294; 31209; 31125; 31041; 30957; 30873; 30790; 30706; 30623; 30541; 30458; 30376; 30293; 30212; 30130; 30048; 29967; 29886; 29805; 29725; 29644; 29564; 29484; 29405; 29325; 29246; 29167; 29088; 29009; 28931; 28852; 28774; 28697; 28619; 28542; 28464; 28388; 28311; 28234; 28158; 28082; 28006; 27930; 27855; 27779; 27704; 27629; 27554; 27480; 27406; 27332; 27258; 27184; 27110; 27037; 26964; 26891; 26818; 26746; 26674; 26601; 26530; 26458; 26386; 26315; 26244; 26173; 26102; 26031; 25961; 25891; 25821; 25751; 25681; 25612; 25543; 25474; 25405; 25336; 25268; 25199; 25131; 25063; 24995; 24928; 24860; 24793; 24726; 24659; 24593; 24526; 24460; 24394; 24328; 24262; 24196; 24131; 24066; 24001; 23936; 23871; 23806; 23742; 23678; 23614; 23550; 23486; 23423; 23359; 23296; 23233; 23170; 23108; 23045; 22983; 22921; 22859; 22797; 22735; 22674; 22613; 22552; 22491; 22430; 22369; 22309; 22248; 22188; 22128; 22068; 22009; 21949; 21890; 21831; 21772; 21713; 21654; 21595; 21537; 21479; 21421; 21363; 21305; 21247; 21190; 21133; 21076; 21019; 20962; 20905; 20849; 20792; 20736; 20680; 20624; 20568; 20513; 20457; 20402; 20347; 20292; 20237; 20182; 20127; 20073; 20019; 19965; 19911; 19857; 19803; 19750; 19696; 19643; 19590; 19537; 19484; 19431; 19379; 19326; 19274; 19222; 19170; 19118; 19066; 19015; 18963; 18912; 18861; 18810; 18759; 18708; 18658; 18607; 18557; 18507; 18457; 18407; 18357; 18308; 18258; 18209; 18160; 18110; 18061; 18013; 17964; 17915; 17867; 17819; 17770; 17722; 17674; 17627; 17579; 17531; 17484; 17437; 17390; 17343; 17296; 17249; 17202; 17156; 17109; 17063; 17017; 16971; 16925; 16879; 16834; 16788; 16743; 16697; 16652; 16607; 16562; 16518; 16473; 16428]).
Definition power (x : int) : int :=
  look_up half_powers (x land 255) >> (let octave := x >> 8 in if octave <? 31 then octave else 31).

Definition mixed (b : block) (q : vector) (messages : heard) : vector :=
  let scores := map (fun '(bias, key, _) => dot q key 0 + bias) messages in
  let most := fold_left (fun x y => if x <? y then y else x) scores (-536870912) in
  let shares := map (fun x => power (scaled (octaves b) (state (most - x)))) scores in
  let total := fold_left (fun x y => x + y) shares 0 in
  let sums := fold_left (fun sums '(share, (_, _, value)) => added sums (map (fun x => share * x) value))
    (combine shares messages) (map (fun _ => 0) q) in
  map (fun x => divided x (if total <? 1 then 1 else total)) sums.

Fixpoint attend (b : block) (queries : list vector) (messages : list heard) : vector :=
  match queries with
  | [] => []
  | q :: queries => mixed b q (map (hd (0, [], [])) messages) ++ attend b queries (map (@tl _) messages)
  end.

Definition head_size (b : block) : nat := (List.length (query b) / heads b)%nat.
Definition hear (b : block) (of : nat) (message : vector) : heard :=
  let '(keys, values) :=
    let both := parts_of (head_size b) (map small (product (key_value b) message)) in
    (firstn (heads b) both, skipn (heads b) both) in
  combine (combine (nth of (direction b) []) keys) values.

Definition apply_block (b : block) (silus : list vector) (x : vector) (messages : list heard) : vector :=
  let x := map state x in
  let q := map small (product (query b) (map (fun a => small (scaled (to_query b) a)) x)) in
  let x := normed (added x (product (out b) (attend b (parts_of (head_size b) q) messages))) in
  let both := map small (product (gate_up b) (map (fun a => small (scaled (to_mlp b) a)) x)) in
  let inner := (List.length both / 2)%nat in
  let gated := map (fun '(gate, up) => small (scaled (to_hidden b) (look_up silus (gate + 127) * up)))
    (combine (firstn inner both) (skipn inner both)) in
  normed (added x (product (down b) gated)).

(* What an op reads of a direction. *)
Record reads := Reads {
  whole : bool;  (* everything, if there is a neighbour; else the neighbour may be missing *)
  presence : bool;  (* whether there is a neighbour *)
  signals : list (nat * nat) }.  (* place in the message, index of the signal *)
Record op := Op { name : nat; given : bool; of : list reads; outputs : list nat }.

Record network := Network {
  blocks : list block;
  H_cycles : nat; L_cycles : nat; H_init : vector; L_init : vector;
  tokens : weights; classes : list weights; present : weights; ops : weights;
  to_message : fraction; to_head : fraction;
  head : list (list (int * int * vector * int));  (* by output: fraction, weights, bias *)
  order : list op;
  passed : list (list nat) }.

Inductive tree := Message (by_block : list heard) | Classes (next : list tree).
Fixpoint tree_of (message : vector -> list heard) (signals : list (list vector)) (sum : vector) : tree :=
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
  takes_given : bool; start : vector; hears : list (reads * tree);
  writes : list (nat * list (int * int * vector * int)) }.

Definition zeros (n : network) : vector := map (fun _ => 0) (H_init n).
Definition hears_of (n : network) (direction : nat) (r : reads) : reads * tree :=
  let embedded := map embeddings (if presence r then [present n] else []) in
  let signals := map (fun '(_, signal) => embeddings (nth signal (classes n) [])) (signals r) in
  let message sum :=
    let message := map (fun a => small (scaled (to_message n) (state a))) sum in
    map (fun b => hear b direction message) (blocks n) in
  (r, tree_of message (embedded ++ signals) (zeros n)).
Definition prepared (n : network) : list ready :=
  let names := embeddings (ops n) in
  map (fun o => Ready (given o) (nth (name o) names (zeros n))
      (map (fun '(i, r) => hears_of n i r) (combine (seq 0 (List.length (of o))) (of o)))
      (map (fun output => (output, nth output (head n) [])) (outputs o)))
    (order n).

Definition heard_from (r : reads) (t : tree) (neighbour : option message) : list (list heard) :=
  let signals := map (fun '(place, _) => nth place (match neighbour with Some m => m | None => [] end) 0%nat)
    (signals r) in
  let is_there := match neighbour with Some _ => 1%nat | None => 0%nat end :: nil in
  if whole r then match neighbour with Some _ => [find t signals] | None => [] end
  else match (if presence r then is_there else []) ++ signals with
       | [] => []
       | read => [find t read]
       end.

Fixpoint apply_blocks (blocks : list (block * list vector)) (messages : list (list heard)) (x : vector) :=
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

Fixpoint replace {A} (i : nat) (one : A) (list : list A) : Datatypes.list A :=
  match list, i with
  | [], _ => []
  | _ :: list, O => one :: list
  | other :: list, S i => other :: replace i one list
  end.

Definition run (n : network) (tokens : list vector) (blocks : list (block * list vector)) (ops : list ready)
    (token : nat) (neighbours : list (option message)) : list nat :=
  fold_left (fun own o =>
      let x := added (if takes_given o then nth token tokens (zeros n) else zeros n) (start o) in
      let messages := flat_map (fun '((r, t), neighbour) => heard_from r t neighbour)
        (combine (hears o) (neighbours ++ [Some own])) in
      let z := map (fun a => small (scaled (to_head n) a)) (recur n blocks messages x) in
      fold_left (fun own '(output, rows) => replace output (decided rows z) own) (writes o) own)
    ops (map (fun _ => 0%nat) (head n)).
Record network_ready := NetworkReady {
  net : network; token_vectors : list vector; silus : list (block * list vector); ready_ops : list ready }.
Definition prepare (n : network) : network_ready :=
  NetworkReady n (embeddings (tokens n)) (map (fun b => (b, parts 16 16 (silu b))) (blocks n)) (prepared n).
Definition decide (r : network_ready) := run (net r) (token_vectors r) (silus r) (ready_ops r).

(* A symbol by its index in the vocabulary. *)
Definition symbol_of (id : nat) : symbol :=
  (match id with
   | 11 => Blank | 12 => Times | 13 => Asked | 17 => Plus
   | 0 => Other 0
   | S d => if d <? 10 then Digit d else if 17 <? id then Digit (id - 8) else Other id
   end)%nat.
Definition id_of (s : symbol) : nat :=
  (match s with
   | Digit d => if d <? 10 then S d else 8 + d
   | Blank => 11 | Times => 12 | Asked => 13 | Plus => 17
   | Other id => id
   end)%nat.

(* A network of sums as a cell. *)
Definition adder (r : network_ready) (given : symbol) (beside above : option message)
    : symbol * message * message :=
  let decided := decide r (id_of given) [beside; above] in
  let passes direction := pick 0%nat (nth direction (passed (net r)) []) decided in
  (symbol_of (nth 0 decided 0%nat), passes 0%nat, passes 1%nat).
End Network.
