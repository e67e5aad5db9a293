"""Configurations that work, one a kind of source, to begin with."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "painted": """\
# The judges that come with the package, on paintings whose truth is exact.
name = "miniature"
about = "How far can the miniature's judges be trusted?"

[source]
kind = "painted"
paintings = 60

[learn]                       # other paintings: what is learnt is not tested on itself
kind = "painted"
paintings = 40
seed = 1
""",
    "dsg": """\
# Three VQA models on 800 images that people rated (github.com/j-min/DSG).
name = "dsg"
about = "Three judges on the images of TIFA160."

[source]
kind = "dsg"
path = "DSG"                  # the folder with tifa160-likert-anns.csv

[families]
instructblip = "instructblip"
""",
    "table": """\
# Any answers: one row an answer; image, fact, judge, and answer or probability are needed.
name = "mine"

[source]
kind = "table"
path = "answers.csv"
""",
    "evaluation": """\
# What `scenewright eval run` left behind.
name = "evaluation"

[source]
kind = "evaluation"
path = "evals/mine"
# ratings = "ratings.csv"     # item, arm, rater, rating; or of `scenewright rate export`
# ask_again = true            # for the parts images and questions
""",
    "runs": """\
# Runs of the loop: every round, by the judges that steered and by those that report.
name = "runs"

[source]
kind = "runs"
path = "runs"                 # a run folder of `scenewright refine`, or a folder of them
""",
    "live": """\
# An evaluation that is run first; judge_rounds = "all" in it shows rounds of loops.
name = "live"

[source]
kind = "live"
path = "mine.toml"            # as for `scenewright eval run`
ask_again = true
""",
    "labels": """\
# Your own labelled pictures (docs/judges.md tells the columns), put to judges.
name = "labels"
limit_usd = 2.0

[source]
kind = "labels"
path = "labels.csv"
judges = ["openai:gpt-6-luna", "gemini:gemini-3.8-flash", "local:miniature/judge-a"]

[families]
"openai:gpt-6-luna" = "openai"
""",
    "simulation": """\
# Judges with known rates: what the kit finds can be held against what was put in.
name = "simulation"

[source]
kind = "simulation"

[source.spec]
n_items = 150
models = [{ id = "good", prevalence = 0.75 }, { id = "poor", prevalence = 0.65 }]
difficulty = 0.2
judges = [
  { id = "one", family = "x", sensitivity = 0.92, specificity = 0.85, correlation = 0.5 },
  { id = "two", family = "x", sensitivity = 0.90, specificity = 0.80, correlation = 0.5 },
  { id = "three", sensitivity = 0.95, specificity = 0.70 },
]
""",
}
"""Kind of source → configuration."""
