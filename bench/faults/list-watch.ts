/** Looks at the list (CRL) of each instance all the time: its number must only rise, also after a restart. */

import { setTimeout as sleep } from 'node:timers/promises'
import { serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { readSingle, TAG } from '../../src/shared/pki/der.ts'
import { TbsCertListReader } from '../../src/shared/pki/tbs-cert-list-reader.ts'
import type { Incident } from './clients.ts'
import { answerOf } from './readiness.ts'

export interface ListWatch {
  /** When a number was lower than one before. */
  readonly stepsBack: readonly Incident[]
  /** Serial numbers that are in the list of every instance; none where one has no list. */
  read(): Promise<ReadonlySet<string>>
  end(): void
}

const EVERY_MS = 2_000

/** @param ports Of the instances. */
export function watchLists(ports: readonly number[]): ListWatch {
  const stepsBack: Incident[] = []
  const highest = new Map<number, bigint>()
  let isOver = false

  async function readOf(port: number): Promise<Set<string>> {
    const der = await answerOf(port, '/crl/default')
    if (!der) return new Set()
    const { number, serials } = readList(der)
    const before = highest.get(port) ?? 0n
    if (number < before) stepsBack.push({ at: Date.now(), what: `a list went back from ${before} to ${number}` })
    highest.set(port, number)
    return serials
  }

  async function read(): Promise<ReadonlySet<string>> {
    const [first = new Set<string>(), ...others] = await Promise.all(ports.map(readOf))
    return new Set([...first].filter((serial) => others.every((one) => one.has(serial))))
  }

  async function watch(): Promise<void> {
    while (!isOver) {
      await read()
      await sleep(EVERY_MS, undefined, { ref: false })
    }
  }
  void watch()
  return { stepsBack, read, end: () => (isOver = true) }
}

function readList(der: Buffer): { number: bigint; serials: Set<string> } {
  const serials = new Set<string>()
  const reader = new TbsCertListReader({
    header: () => undefined,
    entry: ({ serialNumber }) => serials.add(serialNumberHex(serialNumber)),
  })
  reader.push(readSingle(der, TAG.sequence, 'CertificateList').any())
  const { number } = reader.finish()
  if (!number) throw new Error('the list has no number')
  return { number: BigInt(`0x${number.toString('hex')}`), serials }
}
