"""What is known of each set without opening it: where it comes from, licence, size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """One set."""

    about: str
    """One line for lists."""
    source: str
    """Paper or address."""
    licence: str
    """As its makers name it; empty if they name none, or if the files are the user's own."""
    size: str
    """What the published set holds; empty for what the user brings or asks for."""


CATALOGUE: dict[str, About] = {
    "miniature": About(
        "sampled scenes of the painted world, with exact truth",
        "scenewright.miniature, sampled here",
        "as scenewright",
        "as many as you ask for",
    ),
    "tifa": About(
        "TIFA v1.0: prompts with yes/no and multiple-choice questions",
        "Hu et al., TIFA (ICCV 2023), github.com/Yushi-Hu/tifa",
        "Apache-2.0",
        "4,081 prompts, 25,829 questions",
    ),
    "dsg": About(
        "DSG-1k: prompts with human-checked facts that depend on each other",
        "Cho et al., Davidsonian Scene Graph (ICLR 2024), github.com/j-min/DSG",
        "Apache-2.0",
        "1,060 prompts, 8,182 facts",
    ),
    "geneval": About(
        "GenEval: objects, counts, colours and positions",
        "Ghosh et al., GenEval (NeurIPS 2023), github.com/djghosh13/geneval",
        "MIT",
        "553 prompts",
    ),
    "partiprompts": About(
        "PartiPrompts: prompts by category and challenge",
        "Yu et al., Parti (TMLR 2022), github.com/google-research/parti",
        "Apache-2.0",
        "1,632 prompts",
    ),
    "t2i-compbench": About(
        "T2I-CompBench: prompts of binding, relations, numbers and complex scenes",
        "Huang et al., T2I-CompBench (NeurIPS 2023), github.com/Karine-Huang/T2I-CompBench",
        "MIT",
        "6,000 prompts (8,000 in T2I-CompBench++)",
    ),
    "psg-bench": About(
        "prompts in the manner of PSG-Bench: scene graph templates × challenges",
        "Leveraging Panoptic Scene Graph for Fine-Grained Text-to-Image (PSG-Bench), drawn here",
        "as scenewright",
        "as many as you ask for",
    ),
    "megasg": About(
        "scene graphs in the MegaSG style, with boxes and diversity classes",
        "Scene-Bench (the paper's Algorithm 1 and appendix A), or `scenewright data annotate`",
        "",
        "1M images, 50,000 test samples",
    ),
    "visual-genome": About(
        "Visual Genome, with SG2Im's splits and vocabulary",
        "Krishna et al., Visual Genome (IJCV 2017); Johnson et al., SG2Im (CVPR 2018)",
        "CC BY 4.0",
        "108,077 images; 5,096 in SG2Im's test split",
    ),
    "coco": About(
        "COCO photos with detections",
        "Lin et al., Microsoft COCO (ECCV 2014), cocodataset.org",
        "CC BY 4.0 (annotations)",
        "118,287 + 5,000 images (2017)",
    ),
    "objects365": About(
        "Objects365 photos with detections",
        "Shao et al., Objects365 (ICCV 2019), objects365.org",
        "CC BY 4.0 (annotations)",
        "1,742,289 + 80,000 images (v2)",
    ),
    "open-images": About(
        "Open Images photos with detections and visual relationships",
        "Kuznetsova et al., Open Images V4 (IJCV 2020), storage.googleapis.com/openimages",
        "CC BY 4.0 (annotations)",
        "1.9M images with boxes",
    ),
    "folder": About(
        "pictures with sidecar files: NAME.json is the scene, NAME.txt the caption",
        "your folder",
        "",
        "",
    ),
    "table": About(
        "a parquet, CSV, TSV or JSON lines file with columns such as prompt and scene",
        "your file",
        "",
        "",
    ),
    "huggingface": About(
        "a data set of the Hugging Face hub, or of its layout on this machine",
        "huggingface.co/datasets, or your folder",
        "",
        "",
    ),
}
"""Name → what is known."""
