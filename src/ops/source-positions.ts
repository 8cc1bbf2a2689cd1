/** Stack traces of a log name the sources: what runs is bundled, and each bundle has a map beside it,
 * packed in an installation. */

import { existsSync, readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import { INSTALLATION } from '../shared/lib/program-files.ts'

const POSITION = /file:\/\/[^\s()]+\.js:\d+:\d+/g
/** A map takes up to 30 ms to read, so clients that cause errors must not cause readings. */
const MOST_KNOWN = 1_000
const BETWEEN_READINGS_MS = 10_000

const known = new Map<string, string>()
let readAt = Number.NEGATIVE_INFINITY

/** @returns the trace; a position stays where there is no map, or where another map was read a moment ago */
export function sourcePositions(stack: string): string {
  const positions = [...new Set(stack.match(POSITION))].filter((position) => !known.has(position))
  const now = performance.now()
  if (positions.length > 0 && now - readAt > BETWEEN_READINGS_MS && known.size < MOST_KNOWN) {
    readAt = now
    const maps = new Map<string, SourceMap | undefined>()
    for (const position of positions) known.set(position, sourceOf(position, maps))
  }
  return stack.replace(POSITION, (position) => known.get(position) ?? position)
}

function sourceOf(position: string, maps: Map<string, SourceMap | undefined>): string {
  const [, url = '', line, column] = /^(.*):(\d+):(\d+)$/.exec(position) ?? []
  const file = fileURLToPath(url)
  if (!maps.has(file)) maps.set(file, readMap(file))
  const origin = maps.get(file)?.findOrigin(Number(line), Number(column))
  if (!origin || !('fileName' in origin)) return position
  const source = path.relative(INSTALLATION, path.resolve(path.dirname(file), origin.fileName))
  return `${source}:${origin.lineNumber}:${origin.columnNumber}`
}

function readMap(file: string): SourceMap | undefined {
  try {
    const packed = `${file}.map.br`
    const text = existsSync(packed) ? brotliDecompressSync(readFileSync(packed)) : readFileSync(`${file}.map`)
    return new SourceMap(JSON.parse(text.toString()))
  } catch {
    // A file of Node or of a package has none.
    return undefined
  }
}
