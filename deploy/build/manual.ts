/** Manual pages and completions of both programs, made from the tables that their command lines use. */

import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { SIGNER_PROGRAM } from '../../signer/program.ts'
import { localProgram } from '../../src/cli/program.ts'
import { PATHS } from '../../src/installation/places.ts'
import type { Program } from '../../src/shared/command-line.ts'
import { bashCompletion, fishCompletion, zshCompletion } from './completion.ts'
import { manualPage, type PageFacts } from './man-page.ts'

const FACTS: Record<string, PageFacts> = {
  chancery: {
    summary: 'ACME certificate authority server',
    files: {
      [PATHS.config]: 'The configuration of the service',
      [PATHS.serviceEnv]: 'Variables that it names, one NAME=value a line',
      [PATHS.serviceState]: 'What the service writes itself',
    },
    others: ['chancery-signer(1)', 'systemctl(1)', 'psql(1)'],
  },
  'chancery-signer': {
    summary: 'holds the keys of a certificate authority and signs what its policy allows',
    files: {
      [PATHS.signerConfig]: 'The configuration of the signer',
      [PATHS.signerState]: 'The audit chain, and records of what was signed',
      [PATHS.socket]: 'The socket on which the service asks for signatures',
    },
    others: ['chancery(1)', 'systemctl(1)'],
  },
}

/** The folder gets the layout of /usr/share. */
export async function writeManual(folder: string): Promise<void> {
  for (const program of [await localProgram([]), SIGNER_PROGRAM]) {
    for (const [file, text] of Object.entries(manualOf(program))) {
      const target = path.join(folder, file)
      mkdirSync(path.dirname(target), { recursive: true })
      writeFileSync(target, text)
    }
  }
}

function manualOf(program: Program): Record<string, string> {
  const { name } = program
  return {
    [`man/man1/${name}.1`]: manualPage(program, FACTS[name]!),
    [`bash-completion/completions/${name}`]: bashCompletion(program),
    [`zsh/vendor-completions/_${name}`]: zshCompletion(program),
    [`fish/vendor_completions.d/${name}.fish`]: fishCompletion(program),
  }
}
