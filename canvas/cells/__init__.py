"""Cell inputs: all that a cell reads, its own symbol and the decided messages of its neighbours.

In a layout that is worked out in the order of writing (rows downwards, each from the right to the
left) a cell reads its own symbol and the messages of up to four neighbours: the one on its right,
the one above, and those above left and above right. A message is a few named classes, so that a
*cell input* is one of finitely many, however long the numbers are. A layout declares this as its
`LocalRule`: which signals are handed where, what follows from a cell input, and which rows and
columns a page has. From that follow

- the cell inputs of any drawn page (`canvas.cells.pages`), to train on;
- a set of cell inputs that holds all of every page of any size (`canvas.cells.reachable`), to
  prove on.

A cell can work in steps. Each is an *op*: it reads some of the signals, by name, among them
what ops before it have decided, and says others. What one op reads is an *op input*. A rule with
one op, which reads all, has an op input for each cell input; one of many ops has few op inputs, and
all of them occur on small pages.
"""
