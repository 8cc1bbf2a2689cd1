/** The options of `chancery renewal advise` and `renewal clear`. */

/**
 * Value of an option that is not given. It is not empty, because an unset shell variable yields an
 * empty text.
 */
export const ANY = 'any'
export const AT_ONCE = 'at once'
export const NO_EXPLANATION = 'none'

/** Flags as typed; an option given twice is a list. */
export interface SelectionFlags {
  serial: string | readonly string[]
  issuer: string
  'issued-before': string
  all: boolean
}

export interface AdviceFlags extends SelectionFlags {
  explanation: string
  'window-end': string
}
