/** The parsed file brought into the shape that a schema checks. */

import type { SourceDocument } from './document.ts'
import { type ConfigNotice, formatPath, type Violation } from './notice.ts'
import type { SchemaNode } from './schema-node.ts'

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
