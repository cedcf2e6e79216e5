/** The text in the field that an event is about. */
export function textIn({ currentTarget: field }: Event): string {
  const isField =
    field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement
  return isField ? field.value : ''
}
