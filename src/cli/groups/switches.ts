/** `chancery maintenance …` and `signing …`: switches of the whole installation. */

import type { ServerSwitch } from '../../domain/server-switch.ts'
import { isGiven, optional } from '../../shared/command-line/options.ts'
import type { Command } from '../../shared/command-line/program.ts'
import { configured } from '../command.ts'
import { text } from '../values.ts'

function switching(usage: string, about: string, stored: ServerSwitch, position?: boolean): Command {
  return configured({
    ...{ usage, about, examples: [`-c config.yaml ${usage}`] },
    options: {
      reason: optional('A sentence for the audit log, and for whoever asks for the status', text),
      json: isGiven('Print JSON'),
    },
    run: async (config, { reason, json }) =>
      (await import('../commands/switches.ts')).throwSwitch(config, stored, { on: position, reason, json }),
  })
}

export const SWITCHES = [
  switching(
    'maintenance on',
    'Refuse new orders and pre-authorizations on all instances; what was begun goes on',
    'maintenance',
    true,
  ),
  switching('maintenance off', 'Take new orders again', 'maintenance', false),
  switching('maintenance status', 'Say whether the service is in maintenance', 'maintenance'),
  switching(
    'signing stop',
    'Stop all signing on all instances within two seconds: certificates and CRLs',
    'stopSigning',
    true,
  ),
  switching('signing resume', 'Sign again; what was begun is finished', 'stopSigning', false),
  switching('signing status', 'Say whether signing is stopped', 'stopSigning'),
]
