/**
 * Limits of the heap of the service's own threads. V8 lets one fill 48 MB with young objects; a quarter holds the same
 * requests (docs/decisions/mechanisms.md).
 */
export const THREAD_HEAP = { maxYoungGenerationSizeMb: 12 }
