/** From answers and facts to the steps of a set-up. The plan is pure: what is shown is what will be done. */

import { PATHS, PLACES, type Place, SERVICE, SIGNER } from '../../installation/places.ts'
import { type Facts, type GivenCertificates, isThere } from '../facts.ts'
import type { Answers } from '../questions.ts'
import { databaseSteps, serviceSteps } from './service.ts'
import { issuerSteps, signerSteps } from './signer.ts'
import { type Plan, type Step, serviceCommand, stepsOf } from './step.ts'

interface Inputs {
  answers: Answers
  facts: Facts
  given: GivenCertificates | undefined
  /** Random values of this run, for files that need new ones. */
  fresh: { token: string }
  /** Start the programs and try them. */
  start: boolean
  /** The plan continues though entries of the audit log were changed, or their key is lost. */
  acceptsAuditLog?: boolean
}

export function makePlan({ answers, facts, given, fresh, start, acceptsAuditLog = false }: Inputs): Plan {
  const begin = [...users(facts), ...folders(answers), SECRET, ...issuerSteps(answers, facts, given)]
  const endsWithRequest = answers.issuer === 'request' && !given && !isThere(facts, PATHS.issuer)
  if (endsWithRequest) return { steps: begin, endsWithRequest }
  const programs = [
    ...signerSteps(answers, facts, given),
    ...databaseSteps(answers, facts),
    ...serviceSteps(answers, facts, { freshToken: fresh.token, acceptsAuditLog }),
  ]
  const units = start && facts.canStart ? unitSteps(facts) : []
  return { steps: [...begin, ...programs, ...units], endsWithRequest }
}

function users({ users }: Facts): Step[] {
  return stepsOf(
    !users.includes(SIGNER) && {
      title: `User ${SIGNER}`,
      work: { kind: 'user', name: SIGNER, home: PATHS.signerState, groups: [] },
    },
    // The service's user is in the signer's group, and so reaches socket and secret.
    !users.includes(SERVICE) && {
      title: `User ${SERVICE}`,
      work: { kind: 'user', name: SERVICE, home: PATHS.serviceState, groups: [SIGNER] },
    },
  )
}

function folders({ tls }: Answers): Step[] {
  const folder = (at: Place): Step => ({
    title: `Folder ${at.path}`,
    // The operator may have closed it to others.
    work: { kind: 'folder', at, mayBeOther: at === PLACES.folder },
  })
  return [
    folder(PLACES.folder),
    folder(PLACES.signerState),
    folder(PLACES.serviceState),
    ...(tls === 'own' ? [folder(PLACES.tlsFolder)] : []),
    folder(PLACES.signerRun),
  ]
}

const SECRET: Step = {
  title: 'A secret by which service and signer know each other',
  work: { kind: 'random', at: PLACES.secret },
}

/** The steps that start both programs by systemd, and try them. */
function unitSteps(facts: Facts): Step[] {
  return [
    ...(facts.unitsInstalled ? [] : ownUnits(facts)),
    {
      title: 'Have both units start with the machine',
      work: { kind: 'run', command: { words: ['systemctl', 'enable', SIGNER, SERVICE], as: 'root' } },
    },
    { title: 'Start the signer', work: { kind: 'restart', unit: SIGNER } },
    { title: 'Start the service', work: { kind: 'restart', unit: SERVICE } },
    { title: 'Wait until it is ready', work: { kind: 'wait' } },
    {
      title: 'Test the signer',
      work: { kind: 'run', command: serviceCommand(facts, 'ca', 'test-sign') },
    },
    { title: 'Get a test certificate through the public URL, and revoke it', work: { kind: 'test-certificate' } },
    { title: 'Look again: ready, and running what is written', work: { kind: 'last-look' } },
  ]
}

/** A built checkout takes the units of `deploy`, with its own programs. */
function ownUnits({ deploy, programs }: Facts): Step[] {
  const unit = (name: string, at: Place, words: readonly string[] = []): Step => ({
    title: `Unit ${name}`,
    work: {
      kind: 'file',
      at,
      text: (deploy[`systemd/${name}.service`] ?? '').replace(PROGRAM, `ExecStart=${words.join(' ')} `),
    },
  })
  return [
    unit(SIGNER, PLACES.signerUnit, programs.signer),
    unit(SERVICE, PLACES.serviceUnit, programs.service),
    { title: 'Tell systemd', work: { kind: 'run', command: { words: ['systemctl', 'daemon-reload'], as: 'root' } } },
  ]
}

const PROGRAM = /^ExecStart=\S+ (?:\S+\.c?js )?/m
