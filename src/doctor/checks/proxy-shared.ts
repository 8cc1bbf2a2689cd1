/** The directory at the public URL, which several checks need. */

import type { Answer } from '../facts/http.ts'
import { requireAnswer, type Sources } from '../sources.ts'
import { CannotTell } from '../verdict.ts'

export const PUBLIC = 'the public URL'

export const directory = (sources: Sources) => sources.publicly(sources.local('directory'))
export const isOldHttp = ({ status }: Answer) => status === 505 || status === 426

/** @throws CannotTell where the proxy answers something else: its own check says so */
export async function requireDirectory(sources: Sources): Promise<Answer> {
  const answer = requireAnswer(await directory(sources), PUBLIC)
  if (answer.status !== 200) throw new CannotTell(`${PUBLIC} answers with ${answer.status}`)
  return answer
}
