"""How long a study takes, on how many machines, for how much, and which limit holds it up: worked
out from measured figures."""
