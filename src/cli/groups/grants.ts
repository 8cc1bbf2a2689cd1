/** `chancery identifiers …` and `profiles …`: what accounts and credentials may request, and how. */

import { optional } from '../../shared/command-line/options.ts'
import type { Command } from '../../shared/command-line/program.ts'
import { configured, JSON_OPTION } from '../command.ts'
import { text, uuid } from '../values.ts'

const TARGET = {
  account: optional('Account id, the last part of the account URL', uuid),
  eab: optional('Key id of a credential of external account binding', text),
}
const identifiers = () => import('../commands/identifiers.ts')
const profiles = () => import('../commands/profiles.ts')

export const IDENTIFIERS: Command[] = [
  configured({
    usage: 'identifiers list',
    about: 'List the identifiers that may be allowed, or those of an account or credential',
    options: { ...TARGET, ...JSON_OPTION },
    examples: ['-c config.yaml identifiers list --eab team-a'],
    run: async (config, { json, ...target }) => (await identifiers()).listIdentifiers(config, target, json),
  }),
  configured({
    usage: 'identifiers create <identifier>',
    about: 'Make identifiers: names, *.name, addresses, networks; several may follow',
    examples: ["-c config.yaml identifiers create '*.a.example.com' 10.1.0.0/16"],
    options: JSON_OPTION,
    further: true,
    run: async (config, { json }, words) => (await identifiers()).createIdentifiers(config, words, json),
  }),
  configured({
    usage: 'identifiers delete <identifier>',
    about: 'Delete identifiers; no account and no credential has them any more',
    examples: ['-c config.yaml identifiers delete 10.1.0.0/16'],
    options: JSON_OPTION,
    further: true,
    run: async (config, { json }, words) => (await identifiers()).deleteIdentifiers(config, words, json),
  }),
  configured({
    usage: 'identifiers allow <identifier>',
    about: 'Allow identifiers to an account itself, or to a credential and its accounts; several may follow',
    options: { ...TARGET, ...JSON_OPTION },
    examples: ["-c config.yaml identifiers allow '*.a.example.com' --eab team-a"],
    further: true,
    run: async (config, { json, ...target }, words) =>
      (await identifiers()).allowIdentifiers(config, target, words, json),
  }),
  configured({
    usage: 'identifiers disallow <identifier>',
    about: 'Take them back; what the other of account and credential has stays',
    options: { ...TARGET, ...JSON_OPTION },
    examples: ["-c config.yaml identifiers disallow '*.a.example.com' --eab team-a"],
    further: true,
    run: async (config, { json, ...target }, words) =>
      (await identifiers()).disallowIdentifiers(config, target, words, json),
  }),
]

export const PROFILES: Command[] = [
  configured({
    usage: 'profiles create <file>',
    about: 'Store a CSR profile: YAML or JSON with name, description and profile_data',
    examples: ['-c config.yaml profiles create servers.yaml'],
    options: JSON_OPTION,
    run: async (config, { json }, [file = '']) => (await profiles()).createProfile(config, file, json),
  }),
  configured({
    usage: 'profiles replace <file>',
    about: 'Replace the CSR profile of the same name, for all who have it',
    examples: ['-c config.yaml profiles replace servers.yaml'],
    options: JSON_OPTION,
    run: async (config, { json }, [file = '']) => (await profiles()).replaceProfile(config, file, json),
  }),
  configured({
    usage: 'profiles list',
    about: 'List the CSR profiles, the newest first',
    options: JSON_OPTION,
    examples: ['-c config.yaml profiles list'],
    run: async (config, { json }) => (await profiles()).listProfiles(config, json),
  }),
  configured({
    usage: 'profiles delete <name>',
    about: 'Delete a CSR profile; its accounts go back to that of their credential, or to none',
    examples: ['-c config.yaml profiles delete servers'],
    options: JSON_OPTION,
    run: async (config, { json }, [name = '']) => (await profiles()).deleteProfile(config, name, json),
  }),
  configured({
    usage: 'profiles assign <name>',
    about: 'Give a CSR profile to an account, or to a credential and its accounts',
    options: { ...TARGET, ...JSON_OPTION },
    examples: ['-c config.yaml profiles assign servers --eab team-a'],
    run: async (config, { json, ...target }, [name = '']) =>
      (await profiles()).assignProfile(config, name, target, json),
  }),
  configured({
    usage: 'profiles unassign <name>',
    about: 'Take a CSR profile back from an account, or from a credential and its accounts',
    options: { ...TARGET, ...JSON_OPTION },
    examples: ['-c config.yaml profiles unassign servers --eab team-a'],
    run: async (config, { json, ...target }, [name = '']) =>
      (await profiles()).unassignProfile(config, name, target, json),
  }),
  configured({
    usage: 'profiles validate <name> <csr>',
    about: 'Say what a request (PEM or DER) would violate; 1 when it does',
    options: JSON_OPTION,
    examples: ['-c config.yaml profiles validate servers www.csr'],
    run: async (config, { json }, [name = '', file = '']) => (await profiles()).validateCsr(config, name, file, json),
  }),
]
