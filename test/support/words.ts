/** The words of a text that may have several lines, in which no character is an escape. A value is one word, or a list of several. */
export function words({ raw }: TemplateStringsArray, ...values: (string | readonly string[])[]): string[] {
  return raw.flatMap((text, index) => [...text.split(/\s+/).filter(Boolean), ...[values[index] ?? []].flat()])
}
