/** JSON that explains something and decides nothing: whatever is stored is shown, and never fails a reply. */

import { z } from 'zod/v4'

/** What is no object stands below `stored`. */
export const StoredFacts = z
  .unknown()
  .transform((value): Record<string, unknown> | null => (value === null || isRecord(value) ? value : { stored: value }))

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
