"""The studies of Scene-Bench as commands, with tables and plots in the layout of the paper."""
