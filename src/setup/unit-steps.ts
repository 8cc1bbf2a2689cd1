/** The steps that start both programs by systemd, and try them. */

import { serviceCommand } from './administration.ts'
import { type Facts, PLACES, SERVICE, SIGNER } from './facts.ts'
import type { Step } from './step.ts'

export function unitSteps(facts: Facts): Step[] {
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

/** From a built checkout: the units of `deploy`, with the programs of this one. */
function ownUnits({ deploy, programs }: Facts): Step[] {
  const unit = (name: string, path: string, words: readonly string[] = []): Step => ({
    title: `Unit ${name}`,
    work: {
      kind: 'file',
      path,
      text: (deploy[`systemd/${name}.service`] ?? '').replace(PROGRAM, `ExecStart=${words.join(' ')} `),
      mode: 0o644,
      owner: 'root',
    },
  })
  return [
    unit(SIGNER, PLACES.signerUnit, programs.signer),
    unit(SERVICE, PLACES.serviceUnit, programs.service),
    { title: 'Tell systemd', work: { kind: 'run', command: { words: ['systemctl', 'daemon-reload'], as: 'root' } } },
  ]
}

const PROGRAM = /^ExecStart=\S+ (?:\S+\.c?js )?/m
