/** The troubles that the books can find in an installation. */

import type { Incident } from './clients.ts'

/**
 * `undone` is a restriction that a promotion ended, `untold` an act that it lost and nobody is told of, `unseen` a damage that
 * nobody is told of.
 */
export const TROUBLES = ['lost', 'doubled', 'stuck', 'error', 'undone', 'untold', 'unseen'] as const
export type Trouble = (typeof TROUBLES)[number]

/** An order that is gone, and an event or a mail that came again, of a certificate that came back. */
export type Unpromised = 'forgotten' | 'repeated'

/** Something at odds. Its instant says by which fault. */
export interface Finding extends Incident {
  trouble: Trouble
  /** It is this instead where that fault lets the database go back in time. */
  unpromised?: Unpromised
}
