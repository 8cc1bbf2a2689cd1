/**
 * Limits of the heap of a thread that lives as long as the service. V8 lets one fill 48 MB with young objects; a quarter
 * holds the same requests (docs/decisions/mechanisms.md).
 */
export const THREAD_HEAP = { maxYoungGenerationSizeMb: 12 }
