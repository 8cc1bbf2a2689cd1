/** The options of `chancery renewal advise` and `renewal clear`. */

/**
 * What an option says when it is not given; an empty text would be a shell variable that was not
 * set.
 */
export const ANY = 'any'
export const AT_ONCE = 'at once'
export const NO_EXPLANATION = 'none'

/** As typed; options given twice are lists. */
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
