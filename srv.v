==577== Callgrind, a call-graph generating cache profiler
==577== Copyright (C) 2002-2017, and GNU GPL'd, by Josef Weidendorfer et al.
==577== Using Valgrind-3.19.0 and LibVEX; rerun with -h for copyright info
==577== Command: /work/main/target/release/statestored --storage memory --listen tcp://127.0.0.1:0 --log error
==577== 
==577== For interactive control, run 'callgrind_control -h'.
listening on tcp://127.0.0.1:41229
==577== 
==577== Events    : Ir
==577== Collected : 757111544
==577== 
==577== I   refs:      757,111,544
