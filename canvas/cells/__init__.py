"""The cell program: the inputs and outputs of each cell of a canvas, and the messages it passes.

Cells are computed in the order of writing: rows downwards, each from the right to the left. A cell
reads its own symbol and the messages of up to four neighbours: on its right, above, above left and
above right. All of that is its *cell input*. A message is the classes of a few named *signals*, so
there are finitely many cell inputs, however long the numbers are.

A layout declares its `LocalRule`: the signals passed in each direction, the outputs for each cell
input, and the rows and columns of a canvas. From the rule follow

- the cell inputs of any drawn canvas (`canvas.cells.drawn`), to train on;
- a set that contains all cell inputs of every canvas of any size (`canvas.cells.reachable`), to
  prove on.

A cell can work in steps. Each step is an *op*: it reads some signals, by name, and decides others.
It can read signals that ops before it have decided. The inputs of one op are an *op input*. A rule
with one op, which reads all, has an op input for each cell input. A rule with many ops has few op
inputs, and all of them occur on small canvases.
"""
