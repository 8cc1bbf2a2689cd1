/**
 * What validators are to find, by the name they look under: the zone of the DNS responder, and the digests of the tls-alpn-01
 * responder. Generator processes put something in before they trigger a challenge.
 */

/** A name is asked about within seconds; half a million of them are some 100 MB. */
const MAX_KEPT = 500_000

export class Proofs {
  readonly #texts = new Map<string, string>()

  put(name: string, text: string): void {
    // The oldest go first: a Map keeps the order in which its keys came.
    if (this.#texts.size >= MAX_KEPT) this.#texts.delete(this.#texts.keys().next().value as string)
    this.#texts.set(name, text)
  }

  find(name: string): string | undefined {
    return this.#texts.get(name)
  }
}
