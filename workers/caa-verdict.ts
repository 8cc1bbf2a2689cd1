/** Combines a proof of control with the CAA verdict (RFC 8659). Pure. */

import type { CaaFinding, ValidationVerdict } from './job.ts'

/** A refusal is final, because a retry finds the same records. A failed look-up is retryable. */
export function judgedByCaa(
  verdict: Extract<ValidationVerdict, { ok: true }>,
  findings: readonly CaaFinding[],
): ValidationVerdict {
  const evidence = [...verdict.evidence, ...findings.flatMap((finding) => finding.evidence)]
  for (const finding of findings) {
    const { result } = finding
    if (result === 'forbidden')
      return { ok: false, problem: 'caa', detail: finding.detail, retryable: false, evidence, caa: result }
    if (result === 'failed')
      return { ok: false, problem: 'dns', detail: finding.detail, retryable: true, evidence, caa: result }
  }
  return { ...verdict, evidence, caa: findings.some(({ result }) => result === 'excepted') ? 'excepted' : 'permitted' }
}
