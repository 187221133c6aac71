#!/bin/sh
# Database VM, started by hand since 2023.
exec /usr/bin/qemu-system-x86_64 \
    -name "guest=db one,process=db" \
    -enable-kvm -nodefaults \
    -machine q35,usb=off,smm=off \
    -cpu EPYC-Milan,+svm,-xsaves \
    -m size=8G,slots=4,maxmem=32G \
    -smp 12,sockets=2,cores=6 \
    -object memory-backend-file,id=m0,size=4G,mem-path=/dev/hugepages,share=on,prealloc=on,host-nodes=0,policy=bind \
    -object memory-backend-file,id=m1,size=4G,mem-path=/dev/hugepages,share=on,prealloc=on,host-nodes=1,policy=bind \
    -numa node,nodeid=0,cpus=0-5,memdev=m0 \
    -numa node,nodeid=1,cpus=6-8,cpus=9-11,memdev=m1 \
    -numa dist,src=0,dst=1,val=32 \
    -drive 'file=/srv/vm/db one.qcow2,if=virtio,cache=none' \
    -device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=200,numa_node=1 \
    -device pcie-root-port,id=rp1,bus=pxb1,chassis=9 \
    -device vfio-pci,host=41:00.1,id=nic0,bus=rp1 \
    -append "root=/dev/vda -smp 99" \
    -monitor unix:/run/db.mon,server,nowait
