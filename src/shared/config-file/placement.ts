/** From what is wrong with a value to where that stands in the file. */

import type { SourceDocument } from './document.ts'
import { type ConfigNotice, formatPath, type Violation } from './notice.ts'

export type Located = ConfigNotice & { offset: number }

/** Mistakes in the text itself: syntax, keys written twice. */
export function locatedProblems({ problems }: SourceDocument): Located[] {
  return problems.map(({ path, position, message }) => ({ path: formatPath(path), ...position, message }))
}

/** At the key, or at the nearest section around it that is in the file. */
export function locate(source: SourceDocument, { path, message }: Violation): Located {
  const { line, offset } = source.positionOf(path)
  return { path: formatPath(path), ...(line !== undefined && { line }), message, offset }
}

/** Sorted by place; two stages that say the same about one place count once. */
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
