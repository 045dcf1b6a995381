"""The drill: load with a journal on a region, one fault after the other, and after each the proof.

    journal    every request and every answer in a file, before and after; what each user was told
    lane       one SET as its users see it: answers, waits, how long nobody was answered
    load       users who open until they are answered
    proof      the journal compared with the rows, asked again, and the audit
    faults     what is lost, cut off or frozen
    changes    what an operator does meanwhile: a new version, a move
    restore    a whole SET lost, and brought back from its backup
    run        the steps in order
    report     the table, and the figures against their bars

A step that finds a difference says so and the drill goes on: the next step's figures are its own.
"""
