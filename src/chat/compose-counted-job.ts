import { loadTokenizer } from '../models/tokenizer.ts'
import { definePromptJob } from './compose-job.ts'
import { receiptMaker } from './receipt.ts'

const tokenizer = await loadTokenizer()

/** Composes a prompt, and counts tokens where a limit or a receipt needs it. */
export const composeCountedJob = definePromptJob(import.meta.url, 'composeCountedJob', {
  countTokens: tokenizer.count,
  makeReceipt: receiptMaker(tokenizer),
})
