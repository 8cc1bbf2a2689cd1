/** Remembers recent members in two generations: no search through members and no timer. */
export class RecentSet<T> {
  readonly #lifeMs: number
  #younger = new Set<T>()
  #older = new Set<T>()
  /** `performance.now()`: when the younger generation becomes the older one. */
  #until = 0

  /** @param lifeMs how long a member stays at least; it is gone after three times that */
  constructor(lifeMs: number) {
    this.#lifeMs = lifeMs
  }

  add(member: T): void {
    this.#turn()
    this.#younger.add(member)
  }

  has(member: T): boolean {
    this.#turn()
    return this.#younger.has(member) || this.#older.has(member)
  }

  #turn(): void {
    const now = performance.now()
    if (now < this.#until) return
    this.#older = now < this.#until + this.#lifeMs ? this.#younger : new Set()
    this.#younger = new Set()
    this.#until = now + this.#lifeMs
  }
}
