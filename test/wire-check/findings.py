"""What the checks collect: findings, and what of the API was used."""
import collections
import re

Finding = collections.namedtuple("Finding", "rule place detail")


class Findings:
    """The findings of one message. `used` has what the message takes for granted: version, place, name."""

    def __init__(self):
        self.list, self.used = [], set()

    def add(self, rule, place, detail):
        self.list.append(Finding(rule, place, detail))

    def use(self, version, place, name):
        self.used.add((version, generic(place), name))


def generic(text):
    """The text without indices and ids, so that equal findings are one."""
    text = re.sub(r"\[[^]]*\]", "[]", text)
    return re.sub(r"'(vm|task|session|group|resgroup|host|network|datastore|dvportgroup)[^']*'", "'…'", text)
