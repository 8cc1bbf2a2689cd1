/** Characters for texts that strangers may send. */

import fc from 'fast-check'

/**
 * Any character but the surrogates, which no encoding of Unicode has. fast-check's own unit `binary` is the same, and
 * spends more than a second on a table of all of them.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((point) => String.fromCodePoint(point))
