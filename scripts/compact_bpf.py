"""Makes a seccomp filter short.

The kernel translates a filter for every sandbox that is opened, and a longer filter takes longer. libseccomp compares
with one call after the other, and checks arguments bit by bit. Here, neighbours with the same result become one range.
This changes no result: the result of each range is found by following the given filter.
"""

import struct

LOAD, JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, AND, RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x54, 0x06
COMPARISONS = (JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST)
NUMBER, ARCHITECTURE = 0, 4  # offsets in the kernel's `struct seccomp_data`
FARTHEST = 255  # the longest jump of a comparison
WORD = 1 << 32


def compact(program):
    filter = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    starts = range_starts(filter)
    kind, _, architectures = answer(filter, starts, {})
    assert kind == ARCHITECTURE
    otherwise = architectures[0][1]
    assert otherwise[0] == RETURN and architectures[-1][1] == otherwise
    known = [(start, said) for start, said in architectures if said != otherwise]
    head = [(LOAD, 0, 0, ARCHITECTURE)]
    blocks = []
    for architecture, said in reversed(known):  # 64-bit architectures first
        assert (architecture + 1, otherwise) in architectures  # one number, not a range
        head += [(JUMP_EQUAL, 0, 1, architecture), (JUMP, 0, 0, None)]
        blocks.append(assemble(said))
    head.append((RETURN, 0, 0, otherwise[1]))
    code = list(head)
    for index, block in enumerate(blocks):
        at = 2 + 2 * index
        code[at] = (JUMP, 0, 0, len(code) - at - 1)
        code += block
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def range_starts(filter):
    """For every word that a filter reads, the values at which its result may change. Between them it stays the same."""
    starts, waiting, seen = {}, [(0, None, WORD - 1)], set()
    while waiting:
        state = at, word, mask = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        code, on_true, on_false, constant = filter[at]
        if code == LOAD:
            waiting.append((at + 1, constant, WORD - 1))
        elif code == AND:
            waiting.append((at + 1, word, mask & constant))
        elif code == JUMP:
            waiting.append((at + 1 + constant, word, mask))
        elif code in COMPARISONS:
            starts.setdefault(word, {0}).update(changes(code, constant, mask))
            waiting += [(at + 1 + on_true, word, mask), (at + 1 + on_false, word, mask)]
        else:
            assert code == RETURN
    return {word: sorted(value for value in values if value < WORD) for word, values in starts.items()}


def changes(code, constant, mask):
    if code == JUMP_AT_LEAST:
        bounds = {constant}
    elif code == JUMP_GREATER:
        bounds = {constant + 1}
    else:
        bounds = {constant, constant + WORD - mask}
    # A mask must select only upper bits, so that the values with the same result are one range.
    size = WORD - mask
    assert mask == WORD - 1 or (code == JUMP_EQUAL and size & (size - 1) == 0 and constant % size == 0)
    return bounds


def answer(filter, starts, words):
    """The filter's result for the given words. If it needs another word, the results by that word's ranges."""
    holds, at = None, 0
    while True:
        code, on_true, on_false, constant = filter[at]
        at += 1
        if code == RETURN:
            return RETURN, constant
        if code == LOAD and constant not in words:
            return by_ranges(filter, starts, words, constant)
        if code == LOAD:
            holds = words[constant]
        elif code == AND:
            holds &= constant
        elif code == JUMP:
            at += constant
        else:
            at += on_true if compare(code, holds, constant) else on_false


def by_ranges(filter, starts, words, word):
    ranges = []
    for start in starts[word]:
        said = answer(filter, starts, {**words, word: start})
        if not ranges or ranges[-1][1] != said:
            ranges.append((start, said))
    return ranges[0][1] if len(ranges) == 1 else (word, "ranges", tuple(ranges))


def compare(code, value, constant):
    return {JUMP_EQUAL: value == constant, JUMP_GREATER: value > constant, JUMP_AT_LEAST: value >= constant}[code]


def assemble(said):
    """The instructions for an answer. A part that occurs several times is written once."""
    code, places, waiting = [], {}, [said]
    for one in waiting:
        places[one] = len(code)
        if one[0] == RETURN:
            code.append((RETURN, 0, 0, one[1]))
            continue
        code.append((LOAD, 0, 0, one[0]))
        tree(code, one[2])
        # Results come last: every part may jump to them, and jumps only lead forward.
        waiting += [each for _, each in one[2] if each not in waiting and each[0] != RETURN]
        if one is waiting[-1]:
            waiting += dict.fromkeys(result for each in waiting for result in results(each))
    for at, (operation, on_true, on_false, constant) in enumerate(code):
        if operation in COMPARISONS:
            ways = [places[way] if isinstance(way, tuple) else way for way in (on_true, on_false)]
            ways = [way - at - 1 for way in ways]
            assert 0 <= min(ways) and max(ways) <= FARTHEST
            code[at] = (operation, *ways, constant)
    return code


def results(said):
    return [each for _, each in said[2] if each[0] == RETURN] if said[0] != RETURN else []


def tree(code, ranges):
    """Comparisons that lead to a word's answer. A target is a place in the code, or an answer that is placed later."""
    if len(ranges) == 1:
        return ranges[0][1]
    at = len(code)
    code.append(None)
    (_, before), (start, here), *after = ranges
    if len(ranges) == 3 and after == [(start + 1, before)]:
        code[at] = (JUMP_EQUAL, here, before, start)
        return at
    middle = len(ranges) // 2
    below, above = tree(code, ranges[:middle]), tree(code, ranges[middle:])
    code[at] = (JUMP_AT_LEAST, above, below, ranges[middle][0])
    return at
