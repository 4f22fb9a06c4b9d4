"""Is every key's order kept while keys move and consumers are killed, leave, join or freeze?"""
