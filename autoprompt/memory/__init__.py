"""What earlier runs learned: measured lessons in a text file, and which of them a writer is shown."""

from autoprompt.memory.experience import HOW, Experience, Verdict, addition, measurement, shortened, words
from autoprompt.memory.file import EXPORT_FORMATS, MAX_ENTRIES, ExperienceFile
from autoprompt.memory.selection import SAME_KIND, Lesson, task_similarity, tell, tell_own
from autoprompt.memory.text import BadLine

__all__ = [
    "EXPORT_FORMATS",
    "HOW",
    "MAX_ENTRIES",
    "SAME_KIND",
    "BadLine",
    "Experience",
    "ExperienceFile",
    "Lesson",
    "Verdict",
    "addition",
    "measurement",
    "shortened",
    "task_similarity",
    "tell",
    "tell_own",
    "words",
]
