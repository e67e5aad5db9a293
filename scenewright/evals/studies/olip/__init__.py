"""Object-centric realism measured: rated objects, OLIP's training, comparisons of scorers."""
