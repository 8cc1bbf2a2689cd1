/** `chancery doctor`: looks at a running installation from its host, and changes nothing. */

import { CHECKS } from '../../doctor/checks.ts'
import { countsOf, exitCodeOf, jsonOf, type Progress, runChecks, textOf } from '../../doctor/run.ts'
import { areaOf, Sources } from '../../doctor/sources.ts'
import { AREA_NAMES, type Area } from '../../doctor/verdict.ts'
import { UsageError } from '../../shared/command-line.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { loadConfigFile, nameOfConfig } from '../config-file.ts'
import { inspectServiceFiles } from '../configured-files.ts'
import { connectAsServiceUser } from '../peer-relay.ts'
import type { Printing } from '../values.ts'

interface DoctorValues extends Printing {
  'signer-config': string | undefined
  target: string | undefined
  only: readonly string[]
  strict: boolean
  'test-sign': boolean
}

/** @returns 1 when something has failed, or with `strict` is a warning */
export async function doctor(values: DoctorValues): Promise<number> {
  const areas = areasOf(values.only)
  const checks = CHECKS.filter((check) => areas.length === 0 || areas.includes(areaOf(check)))
  const loaded = await loadConfigFile(values.config)
  if (loaded.ok) await connectAsServiceUser(loaded.config)
  const sources = new Sources({
    configFile: nameOfConfig(values.config),
    loaded,
    signerConfigFile: values['signer-config'],
    target: values.target,
    testSign: values['test-sign'],
    version: VERSION,
    inspectFiles: inspectServiceFiles,
  })
  try {
    const findings = await runChecks(checks, sources, showProgress)
    clearProgress()
    console.log(values.json ? JSON.stringify(jsonOf(findings, new Date()), null, 2) : textOf(findings))
    return exitCodeOf(countsOf(findings), values.strict)
  } finally {
    await sources.close()
  }
}

/** @throws UsageError */
function areasOf(only: readonly string[]): Area[] {
  const named = only.flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(AREA_NAMES as string[]).includes(name))
  if (wrong !== undefined) throw new UsageError(`--only ${wrong}: is no area; there are ${AREA_NAMES.join(', ')}`)
  return named as Area[]
}

const ERASE_LINE = '\r\u001b[K'

function showProgress({ done, of, title }: Progress): void {
  if (process.stderr.isTTY) process.stderr.write(`${ERASE_LINE}${done}/${of} ${title.slice(0, 70)}`)
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write(ERASE_LINE)
}
