"""Makes a seccomp filter short.

The kernel translates a filter for every sandbox that is opened, and how long that takes goes by its length. libseccomp
compares with one call after the other; here, calls that stand beside each other and are answered alike become one range.
Nothing is decided here: for each range, the answer is found by following the given filter, and where that looks at the
arguments of a call, its own instructions are taken over.
"""

import struct

LOAD, JUMP, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, RETURN = 0x20, 0x05, 0x15, 0x25, 0x35, 0x06
COMPARISONS = (JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST)
NUMBER, ARCHITECTURE = 0, 4  # where the kernel's `struct seccomp_data` has them
FARTHEST = 255  # that a comparison can jump


def compact(program):
    filter = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    constants = {constant for code, _, _, constant in filter if code in COMPARISONS}
    # Between two of these numbers nothing that the filter compares can differ.
    starts = sorted({0} | {value for constant in constants for value in (constant, constant + 1) if value < 1 << 32})
    other = next(value for value in range(len(constants) + 1) if value not in constants)
    unknown = merged((start, answer(filter, other, start)) for start in starts)
    assert len(unknown) == 1 and unknown[0][1][0] == RETURN
    head = [(LOAD, 0, 0, ARCHITECTURE)]
    blocks = []
    for architecture in sorted(constants, reverse=True):  # those of 64 bits first
        ranges = merged((start, answer(filter, architecture, start)) for start in starts)
        if ranges == unknown:
            continue
        head += [(JUMP_EQUAL, 0, 1, architecture), ("to", len(blocks))]
        blocks.append([(LOAD, 0, 0, NUMBER), *tree(ranges)])
    head.append((RETURN, 0, 0, unknown[0][1][1]))
    return assemble(filter, head, blocks)


def answer(filter, architecture, number):
    """What the filter says to a call: a result, or the place from which on it looks at the arguments."""
    values, holds, at = {NUMBER: number, ARCHITECTURE: architecture}, None, 0
    while True:
        code, on_true, on_false, constant = filter[at]
        if code == RETURN:
            return RETURN, constant
        if code == LOAD and constant not in values:
            return "arguments", at
        if code == LOAD:
            holds = values[constant]
        elif code == JUMP:
            at += constant
        else:
            at += on_true if compare(code, holds, constant) else on_false
        at += 1


def compare(code, value, constant):
    return {JUMP_EQUAL: value == constant, JUMP_GREATER: value > constant, JUMP_AT_LEAST: value >= constant}[code]


def merged(answers):
    ranges = []
    for start, said in answers:
        if not ranges or ranges[-1][1] != said:
            ranges.append((start, said))
    return ranges


def tree(ranges):
    if len(ranges) == 1:
        kind, value = ranges[0][1]
        return [(RETURN, 0, 0, value) if kind == RETURN else ("arguments", value)]
    middle = len(ranges) // 2
    below, above = tree(ranges[:middle]), tree(ranges[middle:])
    assert len(below) <= FARTHEST
    return [(JUMP_AT_LEAST, len(below), 0, ranges[middle][0]), *below, *above]


def assemble(filter, head, blocks):
    """Puts the parts one after the other; the instructions about arguments come last, in the order they had."""
    wanted = sorted(reached(filter, [value for block in blocks for kind, value, *_ in block if kind == "arguments"]))
    code = [*head, *(instruction for block in blocks for instruction in block)]
    block_at = [len(head) + sum(map(len, blocks[:index])) for index in range(len(blocks))]
    argument_at = {old: len(code) + index for index, old in enumerate(wanted)}
    for at, instruction in enumerate(code):
        if instruction[0] == "to":
            code[at] = (JUMP, 0, 0, block_at[instruction[1]] - at - 1)
        elif instruction[0] == "arguments":
            code[at] = (JUMP, 0, 0, argument_at[instruction[1]] - at - 1)
    for old in wanted:
        operation, on_true, on_false, constant = filter[old]
        ways = [argument_at[next] - argument_at[old] - 1 for next in following(filter, old)]
        if operation == JUMP:
            constant = ways[0]
        elif operation in COMPARISONS:
            on_true, on_false = ways
            assert max(ways) <= FARTHEST
        else:
            assert ways in ([], [0])
        code.append((operation, on_true, on_false, constant))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def following(filter, at):
    operation, on_true, on_false, constant = filter[at]
    if operation == RETURN:
        return []
    if operation == JUMP:
        return [at + 1 + constant]
    return [at + 1 + on_true, at + 1 + on_false] if operation in COMPARISONS else [at + 1]


def reached(filter, places):
    found, waiting = set(), list(places)
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += following(filter, at)
            # What is taken over may look at arguments alone: the number and the architecture are decided by then.
            assert filter[at][0] != LOAD or filter[at][3] not in (NUMBER, ARCHITECTURE)
    return found
