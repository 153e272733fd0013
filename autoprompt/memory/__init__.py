"""What earlier runs learned: measured lessons in a text file, and which of them a writer is shown."""

from autoprompt.memory.change import cut_mark
from autoprompt.memory.experience import Experience, Verdict, measurement
from autoprompt.memory.file import EXPORT_FORMATS, MAX_ENTRIES, ExperienceFile
from autoprompt.memory.selection import additive_sentence
from autoprompt.memory.similarity import SAME_KIND, task_similarity
from autoprompt.memory.text import BadLine

__all__ = [
    "EXPORT_FORMATS",
    "MAX_ENTRIES",
    "SAME_KIND",
    "Experience",
    "ExperienceFile",
    "BadLine",
    "Verdict",
    "additive_sentence",
    "cut_mark",
    "measurement",
    "task_similarity",
]
