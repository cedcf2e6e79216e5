/** The most bytes of memory of the answers in one cache: some 10,000 keys. A key for a hundred models may take 50 kB. */
export const maxAnswerBytes = 16 * 1024 ** 2

/** Estimated bytes of memory of a cached answer, besides its texts. */
const bytesOfAnswer = 500

/** Estimates the bytes of memory of a cached answer. A character may take two bytes. */
export function memoryOfAnswer(question: string, answer: unknown): number {
  return bytesOfAnswer + 2 * (question.length + JSON.stringify(answer).length)
}
