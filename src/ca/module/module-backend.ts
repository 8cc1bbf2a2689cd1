/**
 * Backend `ext:`: a module of the operator in threads of its own (docs/ca-modules.md). It issues from
 * the CSR, or signs the TBSCertificate that this service builds.
 *
 * A thread makes one call at a time. A call that does not end costs its own thread, and no other.
 */

import type { LoadableModule } from '../../../workers/module/module-contract.ts'
import { GRACE_MS, LOAD_MS, ModuleError, ModuleThreads, probeModule } from '../../../workers/module/module-thread.ts'
import { Slots } from '../../shared/lib/slots.ts'
import { parseCertificate, serialNumberHex } from '../../shared/pki/certificate.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import type { CsrBackend, IssuanceRequest, IssuanceStep, StepOptions } from '../csr-backend.ts'
import {
  asCaError,
  type Held,
  heldOf,
  type ModuleCaller,
  nothingToCome,
  readIssuer,
  readRenewal,
  readStep,
  waiting,
} from './module-answers.ts'
import { type BuildContent, signingIssuer, takeSigningStep } from './signing-steps.ts'

/** The facts of a profile that a module gets. */
interface ProfileFacts {
  keyUsages: readonly string[]
  extendedKeyUsages: readonly string[]
}

export interface ModuleBackendOptions {
  /** `ext:` and the reference, as the configuration has it. */
  name: string
  /** Its methods are those that the module has. */
  module: LoadableModule
  /** For one call. */
  timeoutMs: number
  /** Calls at the same time. */
  concurrency: number
  /** Undefined for a profile that the configuration no longer has. */
  profileOf(name: string): ProfileFacts | undefined
  build: BuildContent
  /** Output of the module, cut. */
  onOutput(text: string): void
}

/** A step waits so long for a thread; then the row rests, so that its lease is short. */
const GATE_WAIT_MS = 5_000

export function createModuleBackend(options: ModuleBackendOptions): CsrBackend {
  const { name, module, timeoutMs, concurrency, profileOf, build } = options
  const threads = new ModuleThreads(module, options.onOutput)
  const gate = new Slots(concurrency)
  const has = (method: string) => module.methods.includes(method)
  const call: ModuleCaller = (method, argument, context, signal) =>
    threads.call({ method, argument, context, timeoutMs, isAnswered: true }, signal)
  const asked = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw asCaError(name, error, false)
    }
  }

  async function takeStep(request: IssuanceRequest, held: Held, step: StepOptions): Promise<IssuanceStep> {
    if (!has('issue')) return takeSigningStep({ name, call, build }, request, held, step)
    const hasBegun = step.isRepeated || held.own !== undefined
    if (step.isAbandoned && !hasBegun) return nothingToCome()
    try {
      return await issue(call, orderOf(request, profileOf(request.profile)), held, step)
    } catch (error) {
      throw asCaError(name, error, true)
    }
  }

  return {
    name,
    ...(!has('revoke') && { ignoresRevocations: true }),
    stepTimeoutMs: GATE_WAIT_MS + LOAD_MS + timeoutMs + 2 * GRACE_MS,
    async advance(request, state, step) {
      const held = heldOf(state)
      const isRepeated = step.isRepeated || held.isRepeated === true
      const answer = await gate.run(performance.now() + GATE_WAIT_MS, () =>
        takeStep(request, held, { ...step, isRepeated }),
      )
      return answer ?? waiting(held, isRepeated)
    },
    async revoke({ certificate, reason }, signal) {
      if (!has('revoke')) return
      const serialNumber = serialNumberHex(parseCertificate(certificate).tbs.serialNumber)
      const wanted = { serialNumber, certificate: encodePem('CERTIFICATE', certificate), reason }
      await asked(() => call('revoke', wanted, {}, signal))
    },
    // Probes are not bounded: a module at work is not away.
    checkHealth: (signal) =>
      asked(async () => {
        if (has('issuer')) signingIssuer(readIssuer(await call('issuer', undefined, {}, signal)))
        if (has('checkHealth')) await call('checkHealth', undefined, {}, signal)
        else await threads.load(signal)
      }),
    ...(has('renewalInfo') && {
      renewalInfo: (certificate: Buffer, signal: AbortSignal) =>
        asked(async () => readRenewal(await call('renewalInfo', encodePem('CERTIFICATE', certificate), {}, signal))),
    }),
    close: () => threads.close(),
  }
}

async function issue(call: ModuleCaller, order: object, held: Held, step: StepOptions): Promise<IssuanceStep> {
  const { isRepeated, isAbandoned, signal } = step
  const answer = readStep(await call('issue', order, { state: held.own, isRepeated, isAbandoned }, signal))
  if (answer.status !== 'pending') return answer
  const { state, mayHaveIssued } = answer
  return { ...answer, state: { own: state, ...(mayHaveIssued && { mayHaveIssued }) } }
}

/** Plain data. */
function orderOf(request: IssuanceRequest, profile: ProfileFacts | undefined): object {
  const { certificateId, orderId, csr, identifiers, notBefore, notAfter, validityDays, requested, replaces } = request
  return {
    certificateId,
    orderId,
    identifiers,
    notBefore,
    notAfter,
    validityDays,
    requested,
    replaces,
    csr: encodePem('CERTIFICATE REQUEST', csr),
    profile: request.profile,
    keyUsages: profile?.keyUsages ?? [],
    extendedKeyUsages: profile?.extendedKeyUsages ?? [],
  }
}

export type { LoadableModule }

/** Every method that a CA module may have. */
export const CA_METHODS = ['issue', 'issuer', 'sign', 'revoke', 'checkHealth', 'renewalInfo'] as const

/**
 * Loads the module once.
 * @param key of the configuration that names it
 * @returns the module with the methods that it has
 * @throws Error in a plain sentence that names the key
 */
export async function loadCaModule(module: LoadableModule, key: string): Promise<LoadableModule> {
  const named = `${module.module}#${module.exportName}`
  const methods = await probeModule(module).catch((cause: ModuleError) => {
    const isOfSettings = cause instanceof ModuleError && cause.kind === 'settings'
    throw new Error(
      isOfSettings
        ? `ca.extension_settings: ${named} refuses them: ${cause.message}`
        : `${key}: ${named} is not usable: ${cause.message}`,
      { cause },
    )
  })
  const fault = faultOf(methods)
  if (fault !== undefined) throw new Error(`${key}: ${named} ${fault}`)
  return { ...module, methods }
}

function faultOf(methods: readonly string[]): string | undefined {
  const has = (method: string) => methods.includes(method)
  if (has('issue') && has('sign')) return 'has issue and sign; it either issues or signs, so take one of them out'
  if (has('issue')) return undefined
  if (!has('sign')) return 'needs the method issue, or issuer and sign (docs/ca-modules.md)'
  return has('issuer') ? undefined : 'has sign and needs issuer beside it (docs/ca-modules.md)'
}
