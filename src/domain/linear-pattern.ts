/**
 * Regular expressions of operators for values of clients: RE2 syntax, matched in linear time. No
 * other file uses the engine.
 *
 * CSR profiles were written for Python's `re`, and most expressions mean the same here. Differences:
 * - lookaround, backreferences, conditionals, atomic groups, possessive quantifiers and the flags
 *   `x`, `a`, `u` and `L` are missing; a profile that uses them is refused when it is stored;
 * - `\d`, `\w`, `\s` and `\b` are about ASCII only;
 * - a counted repetition goes up to 1000, and nested ones may not multiply beyond that;
 * - `[[:alpha:]]` is a POSIX class, and `\pL` and `\p{Greek}` are Unicode classes;
 * - `\uXXXX` is written `\x{XXXX}`.
 * Two spellings of Python are rewritten, because RE2 refuses them or reads them differently: `\Z`
 * (end of the value) and `{,n}` (up to n).
 */

import { RE2JS } from 're2js'

export interface LinearPattern {
  source: string
  /** Bounds the engine's work for each character of a value. */
  size: number
  /** Whether the whole value matches. */
  matches(value: string): boolean
}

/** The operator's expression is unusable; the message, which follows its name, says why. */
export class PatternError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'PatternError'
  }
}

/** A longer expression is a list of names, for which allowlists exist. */
export const MAX_PATTERN_LENGTH = 2048
/** Compiled instructions; 2000 take at most about 150 µs a character. */
const MAX_SIZE = 2000

/** The estimate may exceed the real size: the engine merges alternatives. Compiling 2 × `MAX_SIZE` takes 20 ms. */
const MAX_ESTIMATE = 2 * MAX_SIZE
const TOO_LARGE = 'is too large once its repetitions are written out'

/** @throws PatternError */
export function compileLinearPattern(source: string): LinearPattern {
  if (source.length > MAX_PATTERN_LENGTH) throw new PatternError(`is longer than ${MAX_PATTERN_LENGTH} characters`)
  // 2048 characters can ask for 300,000 instructions, whose compilation takes over a second.
  if (estimatedSize(source) > MAX_ESTIMATE) throw new PatternError(TOO_LARGE)
  const compiled = compile(source)
  const size = compiled.programSize()
  if (size > MAX_SIZE) throw new PatternError(TOO_LARGE)
  return { source, size, matches: (value) => compiled.testExact(value) }
}

function compile(source: string): RE2JS {
  try {
    return RE2JS.compile(fromPython(source))
  } catch (error) {
    // Cuts the engine's prefix: "error parsing regexp: invalid or unsupported Perl syntax: `(?=`".
    const reason = (error as Error).message.replace(/^error parsing regexp: /, '')
    throw new PatternError(`is not a regular expression of this server (RE2 syntax): ${reason}`)
  }
}

/** A Unicode class, an escaped pair, a character class, the beginning of a group, a counted repetition, or one character. */
const PART =
  /\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P?<\w+>|[\w-]*:?))?|\{(?<least>\d*)(?<comma>,?)(?<most>\d*)\}|./gsu

/** Counts characters, classes and groups with all their repetitions. */
function estimatedSize(source: string): number {
  const open: number[] = []
  let [sum, last] = [0, 0]
  for (const { 0: part, groups = {} } of source.matchAll(PART)) {
    if (part.startsWith('(')) {
      open.push(sum)
      ;[sum, last] = [1, 0]
    } else if (part === ')') {
      last = sum
      sum += open.pop() ?? 0
    } else if (groups.comma !== undefined) {
      // `{3,}` is written out as three, and once more for any number.
      const times = Math.max(1, Number(groups.most) || Number(groups.least) + (groups.comma === '' ? 0 : 1))
      sum += last * (times - 1)
      last *= times
    } else if (!'|*+?^$'.includes(part)) {
      last = 1
      sum += 1
    }
  }
  return open.reduce((total, before) => total + before, sum)
}

/** An escaped pair, a character class, or one of the two spellings. Pairs and classes stay as they are. */
const PYTHON = /\\Z|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{,(?=\d+\})/gs

function fromPython(source: string): string {
  return source.replace(PYTHON, (found) => (found === '\\Z' ? '\\z' : found === '{,' ? '{0,' : found))
}
