/** The text in the field of an event. */
export function textIn({ currentTarget: field }: Event): string {
  const isField =
    field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement
  return isField ? field.value : ''
}
