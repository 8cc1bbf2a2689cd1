/**
 * Which code points a U-label may have (RFC 5892). `domainToASCII` of Node.js follows UTS 46, which
 * lets symbols through that IDNA 2008 forbids: xn--e28h is an emoji.
 */

/** Letters, digits and marks (§2.1); case and compatibility forms do not survive UTS 46. */
const LETTER_DIGIT = /^[\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}-]$/u
/** Exceptions that are valid (§2.6) beside letters and digits. */
const VALID = /^[\u06fd\u06fe\u0f0b\u3007]$/
/** Exceptions that are disallowed (§2.6), and old Hangul Jamo (§2.9). */
const DISALLOWED = /[\u0640\u07fa\u302e\u302f\u3031-\u3035\u303b\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]/
/** Joiners, whose context UTS 46 checks as well (Appendix A.1, A.2). */
const JOINER = /^[\u200c\u200d]$/
/** Points with a contextual rule where the rule holds (Appendix A.3 to A.6). */
const IN_CONTEXT = /(?<=l)\u00b7(?=l)|\u0375(?=\p{Script=Greek})|(?<=\p{Script=Hebrew})[\u05f3\u05f4]/gu
/** Appendix A.7 */
const MIDDLE_DOT = '\u30fb'
const JAPANESE = /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u

/** @param label decoded from an A-label, so that it is in NFC and lower case */
export function isIdna2008Label(label: string): boolean {
  if (DISALLOWED.test(label)) return false
  if (label.includes(MIDDLE_DOT) && !JAPANESE.test(label)) return false
  // Arabic-Indic and extended Arabic-Indic digits do not mix (Appendix A.8, A.9).
  if (/[\u0660-\u0669]/.test(label) && /[\u06f0-\u06f9]/.test(label)) return false
  const rest = label.replaceAll(MIDDLE_DOT, '').replace(IN_CONTEXT, '')
  return [...rest].every((point) => LETTER_DIGIT.test(point) || VALID.test(point) || JOINER.test(point))
}
