/** Ends an import: what is wrong with the former server's data as a whole, and what to do. */
export class UnusableSource extends Error {}
