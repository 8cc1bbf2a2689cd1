/** Places violations in the file: from the path of a value to its line. */

import type { SourceDocument } from './document.ts'
import { type ConfigNotice, formatPath, type Violation } from './notice.ts'

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
