/**
 * Rules for a password of one's own choice. NIST SP 800-63B-4 §3.1.1.2: 15 characters where it is the only factor, checked
 * against common ones, and no rule about kinds of characters.
 */

export const LEAST_CHARACTERS = 15
export const MOST_CHARACTERS = 256
/** So many characters must be left of a password without its common parts. */
const LEAST_OF_ITS_OWN = 8

/** Words of which the passwords are made that lists of leaked ones have most often. */
const COMMON = `
  password passwort passw0rd p@ssword p@ssw0rd passphrase secret letmein welcome admin administrator root login user
  master access changeme default temporary hello monkey dragon football baseball princess sunshine shadow superman batman
  michael jordan charlie jessica ashley daniel thomas robert andrew summer winter spring autumn monday friday january
  december iloveyou trustno1 starwars pokemon minecraft whatever freedom flower cheese computer internet server
  security certificate authority chancery qwerty qwertz qwertyuiop azerty asdfgh asdfghjkl zxcvbn zxcvbnm qazwsx
  1q2w3e4r zaq12wsx abc123 test testing guest company office
`
  .trim()
  .split(/\s+/)

/** `1234`, `cdef`, `aaaa`, also backwards: at least three steps of the same kind. */
function withoutRuns(text: string): string {
  let kept = ''
  for (let index = 0; index < text.length; index++) {
    const step = (at: number) => text.charCodeAt(at) - text.charCodeAt(at - 1)
    const isRun = index >= 2 && Math.abs(step(index)) <= 1 && step(index) === step(index - 1)
    if (!isRun) kept += text[index]
  }
  return kept
}

/** The same text again and again counts once. */
const withoutRepeats = (text: string) => text.replaceAll(/(.{2,}?)\1+/g, '$1')

/**
 * Why a password cannot be taken; undefined when it can.
 * @param context words that a guesser knows: the username, the mail address
 */
export function passwordFault(password: string, context: readonly string[]): string | undefined {
  const { length } = [...password]
  if (length < LEAST_CHARACTERS) return `must have at least ${LEAST_CHARACTERS} characters`
  if (length > MOST_CHARACTERS) return `must have at most ${MOST_CHARACTERS} characters`
  const known = [...COMMON, ...context.flatMap((word) => word.toLowerCase().split(/[^\p{L}\p{N}]+/u))]
  // The longest first: `qwertyuiop` contains `qwerty`.
  const words = known.filter((word) => word.length >= 3).sort((a, b) => b.length - a.length)
  const rest = words.reduce((text, word) => text.replaceAll(word, ''), password.toLowerCase())
  if (withoutRepeats(withoutRuns(rest)).length >= LEAST_OF_ITS_OWN) return undefined
  return 'is too easy to guess: beside common words, names, sequences and repetitions there is little left of it'
}
