"""Long multiplication without the sign: is it of any use to a model that only multiplies?

trm sweep examples/without_sign.yaml --output without-sign      # from the checkout
"""

from canvas.layouts import write
from canvas.multiplication import RunningSum


class Unsigned(RunningSum):
    """`RunningSum` with a blank cell in place of the sign."""

    name = "running_sum_without_sign"
    sign = None
    local_rule = latent_rule = None

    def write_operands(self, content, problems):
        for row, numbers in enumerate(problems.operands):
            write(content, row, 0, numbers)

    def read_operands(self, content, sign):
        multiplicand, multiplier = content[:2, ::-1]
        return {"multiplicand": multiplicand, "multiplier": multiplier}
