/** How far the clocks of two hosts may differ; a time further ahead is of a clock that was wrong (docs/decisions/clocks.md). */
export const CLOCKS_DIFFER_SECONDS = 300
export const CLOCKS_DIFFER_MS = CLOCKS_DIFFER_SECONDS * 1000
