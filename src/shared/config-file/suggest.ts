/** Suggests the intended key: the nearest known name by edit distance. */

import { distance } from 'fastest-levenshtein'

/** Undefined when no name is near: at most one edit for every three characters. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const typed = plain(word)
  const candidates = [typed, ...withSwappedNeighbours(typed)]
  let best: { name: string; edits: number } | undefined
  for (const name of known) {
    const meant = plain(name)
    const edits = Math.min(...candidates.map((text, index) => distance(text, meant) + Math.sign(index)))
    if (best === undefined || edits < best.edits) best = { name, edits }
  }
  return best !== undefined && best.edits <= Math.max(1, Math.floor(word.length / 3)) ? best.name : undefined
}

const plain = (text: string) => text.toLowerCase().replaceAll('-', '_')

/** `prot` for `port` is one slip, but two edits for the package. */
function withSwappedNeighbours(text: string): string[] {
  return Array.from({ length: Math.max(0, text.length - 1) }, (_, i) => {
    return text.slice(0, i) + text[i + 1] + text[i] + text.slice(i + 2)
  })
}
