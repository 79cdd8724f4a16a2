"""The paper's tables on one's own machine: which runs they are, training them, and the report on them."""
