/**
 * Names the usual slips that keep a proof from being the expected one. It uses only its own words, and only for an
 * answer that contains the expected text. Nothing else of an answer is shown.
 */

const BOM = Buffer.of(0xef, 0xbb, 0xbf)
const GZIP = Buffer.of(0x1f, 0x8b)

/** @returns words to put behind "the answer is not the expected one", perhaps none */
export function nearMiss(found: Buffer, expected: Buffer): string {
  // Only the magic number is checked: web servers compress static files without being asked.
  if (found.subarray(0, 2).equals(GZIP)) return '; it is compressed with gzip, which was not asked for'
  if (found.length > expected.length + MOST_AROUND || !found.includes(expected)) return ''
  const slips = [
    ...(found.subarray(0, 3).equals(BOM) ? ['a byte order mark in front'] : []),
    ...(found.includes('"') || found.includes("'") ? ['quotes inside the value'] : []),
    ...(/^\s|\s$/.test(found.toString('latin1')) ? ['white space around it'] : []),
  ]
  return slips.length === 0 ? '' : `; it has ${slips.join(' and ')}`
}

/** A byte order mark, quotes, and some white space. */
const MOST_AROUND = 32
