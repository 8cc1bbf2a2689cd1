/**
 * YAML and JSON text to a plain value, with the line of every key, in the shape that a schema checks. Only this file knows
 * the YAML parser.
 *
 * The parser's messages are not used: they quote the source, which holds passwords.
 */

import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml'
import { type ConfigNotice, formatPath, type Path, type Violation } from './notice.ts'
import type { SchemaNode } from './schema-node.ts'

export type Format = 'yaml' | 'json'

interface Position {
  line: number
  offset: number
}

/** `line` is absent when neither the key nor any section around it is in the file. */
type KeyPosition = Pick<Position, 'offset'> & Partial<Position>

interface SourceProblem {
  path: Path
  position: Position
  message: string
}

interface SourceDocument {
  /** Undefined when the text could not be read at all. */
  value: unknown
  problems: SourceProblem[]
  /** Position of the key. For an absent key: the position of the nearest section around it. */
  positionOf(path: Path): KeyPosition
}

/** Sentences for the parser's error codes; other codes get the general one. */
const SYNTAX: Record<string, string> = {
  BAD_DQ_ESCAPE: 'unknown escape in a double-quoted text; a backslash is written \\\\',
  BAD_INDENT: 'wrong indentation; keys of one section start in the same column',
  BAD_SCALAR_START: 'a text may not start with this character; put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a section may not start on the line of another key; put it on lines of its own, indented',
  KEY_OVER_1024_CHARS: 'key of more than 1024 characters',
  MISSING_CHAR: 'a closing quote, bracket or colon is missing',
  MULTILINE_IMPLICIT_KEY: 'a key goes over several lines; is a colon missing?',
  MULTIPLE_DOCS: 'a second document starts here; a configuration file holds one',
  NON_STRING_KEY: 'a key must be a plain text',
  TAB_AS_INDENT: 'a tab is used for indentation; use spaces',
  TAG_RESOLVE_FAILED: 'unknown tag; tags are not used here',
  UNEXPECTED_TOKEN: 'not YAML from here on; is a quote or a colon missing?',
}

/** Reads the text. Never throws: errors are in `problems`. */
export function readDocument(text: string, format: Format): SourceDocument {
  const lines = new LineCounter()
  // Duplicate keys are found below, where their path is known.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
    uniqueKeys: false,
    merge: format === 'yaml',
  })
  const at = (offset: number): Position => ({ offset, line: lines.linePos(offset).line || 1 })
  const source = new SourceMap(document, at)
  const problems = [
    ...(format === 'json' ? jsonProblems(text, document, at) : syntaxProblems(document, at)),
    ...source.problems,
  ]
  const readable = !problems.some((problem) => problem.path.length === 0)
  return {
    value: readable ? toValue(document, problems, at) : undefined,
    problems,
    positionOf: (path) => source.positionOf(path),
  }
}

function syntaxProblems(document: Document, at: (offset: number) => Position): SourceProblem[] {
  return [...document.errors, ...document.warnings].map((error) => ({
    path: [],
    position: at(error.pos[0]),
    message: SYNTAX[error.code] ?? 'not valid YAML',
  }))
}

/** JSON is stricter than YAML, so the built-in parser checks first. */
function jsonProblems(text: string, document: Document, at: (offset: number) => Position): SourceProblem[] {
  try {
    JSON.parse(text)
    return []
  } catch (error) {
    const stated = /position (\d+)/.exec(String(error))?.[1]
    const offset = stated === undefined ? firstNonJson(text, document) : Number(stated)
    return [
      { path: [], position: at(offset), message: 'not valid JSON; is a comma, quote or bracket missing or too many?' },
    ]
  }
}

/**
 * Some errors of the built-in parser have no position. The first value that only YAML allows is then the likely place.
 */
function firstNonJson(text: string, document: Document): number {
  let offset = document.errors[0]?.pos[0] ?? Math.max(0, text.length - 1)
  visit(document, {
    Scalar(_, node) {
      const isJson = node.type === 'QUOTE_DOUBLE' || (node.type === 'PLAIN' && typeof node.value !== 'string')
      if (isJson || node.range === undefined || node.range === null) return undefined
      offset = node.range[0]
      return visit.BREAK
    },
  })
  return offset
}

function toValue(document: Document, problems: SourceProblem[], at: (offset: number) => Position): unknown {
  try {
    return document.toJS() ?? {}
  } catch {
    problems.push({ path: [], position: at(0), message: 'the aliases of the file expand to too much' })
    return undefined
  }
}

/** Key of the position table. JSON keeps a key with a dot apart from two keys. */
const placeOf = (path: Path) => JSON.stringify(path)

/** Positions of all keys and entries, and the errors found by walking over the nodes. */
class SourceMap {
  readonly problems: SourceProblem[] = []
  readonly #positions = new Map<string, Position>()
  readonly #document: Document
  readonly #at: (offset: number) => Position

  constructor(document: Document, at: (offset: number) => Position) {
    this.#document = document
    this.#at = at
    this.#positions.set(placeOf([]), at(document.contents?.range?.[0] ?? 0))
    this.#walk(document.contents, [], [])
  }

  positionOf(path: Path): KeyPosition {
    for (let length = path.length; length > 0; length--) {
      const position = this.#positions.get(placeOf(path.slice(0, length)))
      if (position !== undefined) return position
    }
    const whole = this.#positions.get(placeOf([])) ?? this.#at(0)
    return path.length === 0 ? whole : { offset: whole.offset }
  }

  #walk(node: Node | null, path: Path, above: readonly Node[]): void {
    if (isMap(node)) this.#walkMap(node.items, path, [...above, node])
    if (isSeq(node)) {
      node.items.forEach((item, index) => {
        const entry = [...path, index]
        this.#positions.set(placeOf(entry), this.#at((item as Node).range?.[0] ?? 0))
        this.#walk(item as Node, entry, [...above, node])
      })
    }
    if (isAlias(node)) {
      const target = node.resolve(this.#document)
      const position = this.#at(node.range?.[0] ?? 0)
      // Without a target no value can be built; an alias to a node around it would never end.
      if (target === undefined) this.problems.push({ path: [], position, message: 'alias without an anchor before it' })
      else if (above.includes(target)) {
        this.problems.push({ path: [], position, message: 'alias to a section that contains it' })
      }
    }
  }

  #walkMap(items: readonly unknown[], path: Path, above: readonly Node[]): void {
    for (const pair of items) {
      if (!isPair(pair) || !isScalar(pair.key)) continue
      const entry = [...path, String(pair.key.value)]
      const key = placeOf(entry)
      const position = this.#at(pair.key.range?.[0] ?? 0)
      const first = this.#positions.get(key)
      if (first === undefined) this.#positions.set(key, position)
      else if (pair.key.value !== '<<') {
        this.problems.push({
          path: entry,
          position,
          message: `written a second time, first on line ${first.line}; keep one of the two`,
        })
      }
      this.#walk(pair.value as Node | null, entry, above)
    }
  }
}

export type Located = ConfigNotice & { offset: number }

/** Errors in the text itself: syntax and duplicate keys. */
export function locatedProblems({ problems }: SourceDocument): Located[] {
  return problems.map(({ path, position, message }) => ({ path: formatPath(path), ...position, message }))
}

/** Places a violation at its key, or at the nearest section around the key that is in the file. */
export function locate(source: SourceDocument, { path, message }: Violation): Located {
  const { line, offset } = source.positionOf(path)
  return { path: formatPath(path), ...(line !== undefined && { line }), message, offset }
}

/** Sorts by place. Equal messages about one place count once. */
export function inFileOrder(notices: readonly Located[]): ConfigNotice[] {
  const seen = new Set<string>()
  return notices
    .toSorted((a, b) => a.offset - b.offset)
    .map(({ offset: _, ...notice }) => notice)
    .filter((notice) => {
      const key = JSON.stringify(notice)
      return seen.has(key) ? false : seen.add(key)
    })
}

export type Section = Record<string, unknown>

export const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A copy where a heading without keys is an empty section.
 * An absent required section is added empty, so that the check names its missing keys.
 */
export function withSections(root: Section, schema: SchemaNode): Section {
  const filled = fillEmpty(root, schema)
  for (const name of schema.required ?? []) {
    if (schema.properties?.[name]?.properties !== undefined) filled[name] ??= {}
  }
  return filled
}

function fillEmpty(section: Section, node: SchemaNode): Section {
  const entries = Object.entries(section).map(([key, value]) => {
    const child = Object.hasOwn(node.properties ?? {}, key) ? node.properties?.[key] : undefined
    return [key, fillValue(value, child)]
  })
  return Object.fromEntries(entries)
}

function fillValue(value: unknown, node: SchemaNode | undefined): unknown {
  if (node?.properties !== undefined) {
    if (value === null) return {}
    return isSection(value) ? fillEmpty(value, node) : value
  }
  const entry = node?.items
  if (entry === undefined || !Array.isArray(value)) return value
  return value.map((item) => (item === null ? item : fillValue(item, entry)))
}
