/** Puts what a reader finds one by one into pages. */

const PAGE = 500

export async function* inPages<T>(found: AsyncIterable<T>): AsyncGenerator<T[]> {
  let page: T[] = []
  for await (const one of found) {
    page.push(one)
    if (page.length < PAGE) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}
